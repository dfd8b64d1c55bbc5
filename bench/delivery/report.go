package delivery

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

// report returns all tables.
func (b *bench) report() string {
	return fmt.Sprintf("Each measurement in a process of its own that may use all cores, SQLite with every commit on the disk unless another database is "+
		"named; %d rounds. Figures are medians, least and most in parentheses. The longest stalls of the machine meanwhile: %s ms.\n",
		b.Rounds, figures.Spread(figures.Fixed(1), b.stalls)) + b.reportSilent() + b.reportRates() + b.reportLatency() + b.reportClaims()
}

// megabytes returns a column of bytes.
func megabytes[R any](title string, of func(R) int) figures.Column[R] {
	return figures.Col(title, 0, func(r R) float64 { return float64(of(r)) / 1e6 })
}

func (r silent) growth() int { return r.Peak - r.Before }

func (b *bench) reportSilent() string {
	rows := []string{silentHeld, silentDelivered}
	delivered := figures.Time("delivered, s", 2, time.Second, func(r silent) time.Duration { return r.Delivered })
	first := figures.Table("", rows, b.silent,
		figures.Time("committed, s", 2, time.Second, func(r silent) time.Duration { return r.Committed }),
		figures.Text("delivered, s", func(row string, rs []silent) string {
			if row == silentHeld {
				return "–"
			}
			return figures.Spread(delivered.Format, figures.Each(rs, delivered.Of))
		}),
		figures.Time("CPU, s", 2, time.Second, func(r silent) time.Duration { return r.CPU }),
		megabytes("before, MB", func(r silent) int { return r.Before }), megabytes("growth, MB", silent.growth))
	if first == "" {
		return ""
	}
	ms := func(title string, of func(silent) time.Duration) figures.Column[silent] {
		return figures.Time(title, 1, time.Millisecond, of)
	}
	second := figures.Table("", rows, b.silent,
		figures.Count("due", func(r silent) int { return r.Others }),
		ms("timer p99, ms", func(r silent) time.Duration { return r.TimerP99 }), ms("most, ms", func(r silent) time.Duration { return r.TimerMax }),
		figures.Col(fmt.Sprintf("within %.1f ms, %%", figures.Millis(inTime)), 2, func(r silent) float64 { return 100 * r.InTime }),
		ms("verdict p50, ms", func(r silent) time.Duration { return r.VerdictP50 }), ms("p99, ms", func(r silent) time.Duration { return r.VerdictP99 }))
	met := func(ok func(silent) bool) string {
		all := slices.Concat(b.silent[silentHeld], b.silent[silentDelivered])
		return figures.Met(!slices.ContainsFunc(all, func(r silent) bool { return !ok(r) }))
	}
	return fmt.Sprintf("\n### %s devices fall silent at one instant, and each verdict becomes a job\n\n"+
		"From the instant at which all are due to the last commit of events and jobs; the memory in RAM before, after a collection of garbage, and how much "+
		"more it was at most until then. Held: the queue is paused. Delivered: webhooks of %d events go out meanwhile.\n\n%s\n"+
		"Meanwhile other devices, at another source, are due one every %v. Their timers, found due so long after the deadline (upper bounds, "+
		"powers of two in µs); and the verdicts on them, which wait in turn while as many events as may wait for the database do.\n\n%s\n"+
		"Targets, in every round: all committed within %v: %s; growth at most %.0f MB: %s; 99 %% of the timers of others late by at most %v "+
		"(%.1f ms are looked for, the bound below): %s.\n",
		figures.Grouped(b.devices), manyAtOnce, first, otherEvery, second,
		wantCommitted, met(func(r silent) bool { return r.Committed <= wantCommitted }), wantGrowth/1e6,
		met(func(r silent) bool { return float64(r.growth()) <= wantGrowth }), wantLate, figures.Millis(inTime),
		met(func(r silent) bool { return r.InTime >= 0.99 }))
}

func (b *bench) reportRates() string {
	opened := figures.Time("opened, s", 2, time.Second, func(r rate) time.Duration { return r.Opened })
	table := figures.Table("", []string{webhooksBare, webhooksSingle, webhooksBatch, recovery}, b.rates,
		figures.Col("events per request", 0, func(r rate) float64 { return float64(r.Events) / float64(r.Requests) }),
		figures.Col("events/s", 0, rate.perSecond),
		figures.Col("requests/s", 0, func(r rate) float64 { return float64(r.Requests) / r.Elapsed.Seconds() }),
		figures.Col("µs of CPU per event", 1, func(r rate) float64 { return float64(r.CPU.Microseconds()) / float64(r.Events) }),
		figures.Col("µs of the endpoint's CPU", 1, func(r rate) float64 { return float64(r.Endpoint.Microseconds()) / float64(r.Events) }),
		megabytes("growth, MB", func(r rate) int { return r.Peak - r.Before }),
		figures.Text(opened.Title, func(row string, rs []rate) string {
			if row != recovery {
				return "–"
			}
			return figures.Spread(opened.Format, figures.Each(rs, opened.Of))
		}))
	if table == "" {
		return ""
	}
	text := fmt.Sprintf("\n### Webhooks to an endpoint on this machine\n\n"+
		"Signed CloudEvents of %s stored events, one or %d in a request, to a server of package net/http that answers 200 at once; %d deliveries at a time. The "+
		"bare client POSTs the same one by one with as many goroutines, and has no queue. The recovery delivers %s jobs that another process left behind.\n\n%s",
		figures.Grouped(b.webhooks), manyAtOnce, workers, figures.Grouped(b.devices), table)
	if rs := b.rates[webhooksSingle]; len(rs) > 0 {
		text += fmt.Sprintf("\nTarget: at least %.0f webhooks per second, one by one: %s.\n", wantWebhooks,
			figures.Met(figures.Median(figures.Each(rs, rate.perSecond)) >= wantWebhooks))
	}
	return text
}

func (b *bench) reportLatency() string {
	if len(b.latency) == 0 {
		return ""
	}
	ms := func(of func(latency) time.Duration) string {
		return figures.Spread(figures.Fixed(1), figures.Each(b.latency, func(r latency) float64 { return figures.Millis(of(r)) }))
	}
	return fmt.Sprintf("\n%d events, one every %v, arrived so long after they were committed: p50 %s ms, p99 %s ms, all %s ms.\n", b.timed, between,
		ms(func(r latency) time.Duration { return r.P50 }), ms(func(r latency) time.Duration { return r.P99 }),
		ms(func(r latency) time.Duration { return r.Max }))
}

func (r claims) ratio() float64 { return r.Bare.Seconds() / r.Store.Seconds() }

func (b *bench) reportClaims() string {
	perSecond := func(r claims, took time.Duration) float64 { return float64(r.Jobs) / took.Seconds() }
	cost := func(r claims, used time.Duration) float64 { return float64(used.Microseconds()) / float64(r.Jobs) }
	table := figures.Table("", claimNames(), b.claimed,
		figures.Col("jobs/s", 0, func(r claims) float64 { return perSecond(r, r.Store) }),
		figures.Col("bare, rows/s", 0, func(r claims) float64 { return perSecond(r, r.Bare) }),
		figures.Col("÷ bare", 2, claims.ratio),
		figures.Col("µs of CPU per job", 1, func(r claims) float64 { return cost(r, r.CPU) }),
		figures.Col("bare", 1, func(r claims) float64 { return cost(r, r.BareCPU) }))
	if table == "" {
		return ""
	}
	met := true
	for _, rs := range b.claimed {
		met = met && figures.Median(figures.Each(rs, claims.ratio)) >= wantClaims
	}
	return fmt.Sprintf("\n### Claim and settle, %d jobs at a time\n\n"+
		"In turns of %s jobs on the same table. The bare database: a transaction that reads %d rows and changes them, one that removes them, each on the "+
		"disk; no fence, no order per key, no retries. CPU is that of the process, without a server's.\n\n%s\nTarget: at least %.1f of the bare database: %s.\n",
		claimSize, figures.Grouped(claimTurn), claimSize, strings.ReplaceAll(table, "| "+claimPrefix, "| "), wantClaims, figures.Met(met))
}
