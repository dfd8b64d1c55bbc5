package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// The targets.
const (
	wantCommitted = 10 * time.Second
	wantGrowth    = 300e6 // bytes
	wantLate      = 50 * time.Millisecond
	wantWebhooks  = 5000.0 // per second
	wantClaims    = 0.8    // of the bare database
)

// report writes all that was measured.
func (b *bench) report() string {
	var w strings.Builder
	fmt.Fprintf(&w, "Each measurement in a process of its own that may use all cores, SQLite with every commit on the disk unless another database is "+
		"named; %d rounds. Figures are medians, least and most in parentheses. The longest stalls of the machine meanwhile: %s ms.\n",
		b.config.rounds, millis(b.stalls, func(d time.Duration) time.Duration { return d }))
	b.reportSilent(&w)
	b.reportRates(&w)
	b.reportLatency(&w)
	b.reportClaims(&w)
	return w.String()
}

// millis formats times in milliseconds.
func millis[R any](rs []R, f func(R) time.Duration) string {
	return figures.Spread("%.1f", figures.Each(rs, func(r R) float64 { return float64(f(r)) / 1e6 }))
}

func seconds[R any](rs []R, f func(R) time.Duration) string {
	return figures.Spread("%.2f", figures.Each(rs, func(r R) float64 { return f(r).Seconds() }))
}

// megabytes formats bytes.
func megabytes[R any](rs []R, f func(R) int) string {
	return figures.Spread("%.0f", figures.Each(rs, func(r R) float64 { return float64(f(r)) / 1e6 }))
}

func (b *bench) reportSilent(w *strings.Builder) {
	if len(b.silent) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### %s devices fall silent at one instant, and each verdict becomes a job\n\n", figures.Grouped(b.config.devices))
	fmt.Fprintf(w, "From the instant at which all are due to the last commit of events and jobs; the memory in RAM before, after a collection of garbage, and how much "+
		"more it was at most until then. Held: the queue is paused. Delivered: webhooks of %d events go out meanwhile.\n\n"+
		"| | committed, s | delivered, s | CPU, s | before, MB | growth, MB | heap before, MB | its growth, MB |\n|---|---:|---:|---:|---:|---:|---:|---:|\n", manyAtOnce)
	for _, name := range []string{silentHeld, silentDelivered} {
		rs := b.silent[name]
		if len(rs) == 0 {
			continue
		}
		delivered := "–"
		if name == silentDelivered {
			delivered = seconds(rs, func(r Silent) time.Duration { return r.Delivered })
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", strings.TrimPrefix(name, "silent/"),
			seconds(rs, func(r Silent) time.Duration { return r.Committed }), delivered, seconds(rs, func(r Silent) time.Duration { return r.CPU }),
			megabytes(rs, func(r Silent) int { return r.Before }), megabytes(rs, Silent.growth),
			megabytes(rs, func(r Silent) int { return r.HeapBefore }), megabytes(rs, func(r Silent) int { return r.HeapPeak - r.HeapBefore }))
	}
	fmt.Fprintf(w, "\nMeanwhile other devices, at another source, are due one every %v. Their timers, found due so long after the deadline (upper bounds, "+
		"powers of two in µs); and the verdicts on them, which wait in turn while as many events as may wait for the database do.\n\n"+
		"| | due | timer p99, ms | most, ms | within %.1f ms, %% | verdict p50, ms | p99, ms |\n|---|---:|---:|---:|---:|---:|---:|\n",
		otherEvery, float64(inTime)/1e6)
	for _, name := range []string{silentHeld, silentDelivered} {
		if rs := b.silent[name]; len(rs) > 0 {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", strings.TrimPrefix(name, "silent/"),
				figures.Spread("%d", figures.Each(rs, func(r Silent) int { return r.Others })),
				millis(rs, func(r Silent) time.Duration { return r.TimerP99 }), millis(rs, func(r Silent) time.Duration { return r.TimerMax }),
				figures.Spread("%.2f", figures.Each(rs, func(r Silent) float64 { return 100 * r.InTime })),
				millis(rs, func(r Silent) time.Duration { return r.VerdictP50 }), millis(rs, func(r Silent) time.Duration { return r.VerdictP99 }))
		}
	}
	all := slices.Concat(b.silent[silentHeld], b.silent[silentDelivered])
	met := func(ok func(Silent) bool) string {
		return figures.Met(!slices.ContainsFunc(all, func(r Silent) bool { return !ok(r) }))
	}
	fmt.Fprintf(w, "\nTargets, in every round: all committed within %v: %s; growth at most %.0f MB: %s; 99 %% of the timers of others late by at most %v "+
		"(%.1f ms are looked for, the bound below): %s.\n",
		wantCommitted, met(func(r Silent) bool { return r.Committed <= wantCommitted }), wantGrowth/1e6,
		met(func(r Silent) bool { return float64(r.growth()) <= wantGrowth }), wantLate, float64(inTime)/1e6,
		met(func(r Silent) bool { return r.InTime >= 0.99 }))
}

func (r Silent) growth() int { return r.Peak - r.Before }

func (b *bench) reportRates(w *strings.Builder) {
	if len(b.rates) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### Webhooks to an endpoint on this machine\n\n"+
		"Signed CloudEvents of %s stored events, to a server of package net/http that answers 200 at once; %d deliveries at a time. The bare client POSTs "+
		"the same with as many goroutines, and knows no queue. A backlog is %s jobs that another process left behind.\n\n"+
		"| | events per request | events/s | requests/s | µs of CPU per event | µs of the endpoint's CPU | growth, MB | opened, s |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
		figures.Grouped(b.config.webhooks), workers, figures.Grouped(b.config.devices))
	for _, row := range []struct{ name, title string }{
		{webhooksBare, "bare client"}, {webhooksSingle, "one by one"}, {webhooksBatch, "in batches"}, {recovery, "backlog, in batches"},
	} {
		rs := b.rates[row.name]
		if len(rs) == 0 {
			continue
		}
		opened := "–"
		if row.name == recovery {
			opened = seconds(rs, func(r Rate) time.Duration { return r.Opened })
		}
		each := func(f func(Rate) float64, format string) string { return figures.Spread(format, figures.Each(rs, f)) }
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", row.title,
			each(func(r Rate) float64 { return float64(r.Events) / float64(r.Requests) }, "%.0f"), each(Rate.perSecond, "%.0f"),
			each(func(r Rate) float64 { return float64(r.Requests) / r.Elapsed.Seconds() }, "%.0f"),
			each(func(r Rate) float64 { return float64(r.CPU.Microseconds()) / float64(r.Events) }, "%.1f"),
			each(func(r Rate) float64 { return float64(r.Endpoint.Microseconds()) / float64(r.Events) }, "%.1f"),
			megabytes(rs, func(r Rate) int { return r.Peak - r.Before }), opened)
	}
	if rs := b.rates[webhooksSingle]; len(rs) > 0 {
		fmt.Fprintf(w, "\nTarget: at least %.0f webhooks per second, one by one: %s.\n", wantWebhooks,
			figures.Met(figures.Median(figures.Each(rs, Rate.perSecond)) >= wantWebhooks))
	}
}

func (b *bench) reportLatency(w *strings.Builder) {
	if rs := b.latency; len(rs) > 0 {
		fmt.Fprintf(w, "\n%d events, one every %v, arrived so long after they were committed: p50 %s ms, p99 %s ms, all %s ms.\n", latencyEvents, between,
			millis(rs, func(r Latency) time.Duration { return r.P50 }), millis(rs, func(r Latency) time.Duration { return r.P99 }),
			millis(rs, func(r Latency) time.Duration { return r.Max }))
	}
}

func (b *bench) reportClaims(w *strings.Builder) {
	if len(b.claims) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### Claim and settle, %d jobs at a time\n\n"+
		"In turns of %s jobs on the same table. The bare database: a transaction that reads %d rows and changes them, one that removes them, each on the "+
		"disk; no fence, no order per key, no retries. CPU is that of the process, without a server's.\n\n| database | jobs/s | bare, rows/s | ÷ bare | µs of CPU per job | bare |\n|---|---:|---:|---:|---:|---:|\n",
		claimSize, figures.Grouped(claimTurn), claimSize)
	met := true
	for _, row := range []struct{ name, title string }{{claimSQLite, "SQLite"}, {claimPostgres, "PostgreSQL"}, {claimMariaDB, "MariaDB"}} {
		rs := b.claims[row.name]
		if len(rs) == 0 {
			continue
		}
		ours := figures.Each(rs, func(r Claims) float64 { return float64(r.Jobs) / r.Store.Seconds() })
		bare := figures.Each(rs, func(r Claims) float64 { return float64(r.Jobs) / r.Bare.Seconds() })
		ratios := figures.Ratios(ours, bare)
		met = met && figures.Median(ratios) >= wantClaims
		each := func(f func(Claims) time.Duration) string {
			return figures.Spread("%.1f", figures.Each(rs, func(r Claims) float64 { return float64(f(r).Microseconds()) / float64(r.Jobs) }))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", row.title, figures.Spread("%.0f", ours), figures.Spread("%.0f", bare), figures.Spread("%.2f", ratios),
			each(func(r Claims) time.Duration { return r.CPU }), each(func(r Claims) time.Duration { return r.BareCPU }))
	}
	fmt.Fprintf(w, "\nTarget: at least %.1f of the bare database: %s.\n", wantClaims, figures.Met(met))
}
