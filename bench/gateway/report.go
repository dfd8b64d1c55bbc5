package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/internal/section"
)

// The targets.
const (
	wantRatio = 0.9                   // of gnet's messages
	wantBytes = 900                   // of user memory for each connection
	wantLag   = 50 * time.Millisecond // of 99 % of the verdicts
	wantHurt  = 2.0                   // RTT p99 while verdicts are made and connections closed, to that before
)

// part is a section of the report.
type part struct {
	section section.Section
	text    string
}

// parts returns all that was measured; what was not keeps its place in the file.
func (b *bench) parts(header string) []part {
	var all []part
	add := func(title, name string, measured bool, write func(*strings.Builder)) {
		if measured {
			var w strings.Builder
			w.WriteString(header)
			write(&w)
			all = append(all, part{section.Section{Title: title, Name: name}, w.String()})
		}
	}
	add("## Gateway", "gateway", len(b.beats1)+len(b.beats16)+len(b.idle[serverHolter])+len(b.verdicts) > 0, b.report)
	add("## Gateway: protocols", "gateway-protocols", len(b.spoken) > 0, b.reportProtocols)
	add("## Gateway: TLS and UDP", "gateway-carriers", len(b.idle[carriers[0]])+len(b.idle[carriers[1]]) > 0, b.reportCarriers)
	return all
}

// report writes all tables of the line protocol over TCP.
func (b *bench) report(w *strings.Builder) {
	fmt.Fprintf(w, "Each server has core 0 to itself with GOMAXPROCS=1, the client has core 1; %d rounds in turn. "+
		"Figures are medians, least and most in parentheses. CPU is in percent of one core, \"others\" is all else on the machine.\n",
		b.config.rounds)
	b.reportBeats(w, "one message per read", b.beats1)
	b.reportBeats(w, fmt.Sprintf("%d messages per write", pipelined), b.beats16)
	b.reportIdle(w)
	b.reportVerdicts(w)
}

func (b *bench) reportBeats(w *strings.Builder, title string, t table[beatsResult]) {
	if len(t) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### Heartbeats: %d connections, %s\n\n", b.config.connections, title)
	w.WriteString("| server | messages/s | ÷ gnet | µs of CPU per message | per CPU second ÷ gnet | server busy | client waiting | others |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	rate, perCPU := beatsResult.rate, beatsResult.perCPU
	percent := func(f func(beatsResult) float64, rs []beatsResult) string {
		return fmt.Sprintf("%.0f %%", 100*figures.Median(figures.Each(rs, f)))
	}
	for _, server := range servers {
		rs := t[server]
		if len(rs) == 0 {
			continue
		}
		ratio, ratioCPU := "", ""
		if gnet := t[serverGnet]; len(gnet) > 0 {
			ratio = figures.Spread("%.2f", figures.Ratios(figures.Each(rs, rate), figures.Each(gnet, rate)))
			ratioCPU = figures.Spread("%.2f", figures.Ratios(figures.Each(rs, perCPU), figures.Each(gnet, perCPU)))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", server, figures.Spread("%.0f", figures.Each(rs, rate)), ratio,
			figures.Spread("%.2f", figures.Each(rs, func(r beatsResult) float64 { return 1e6 / r.perCPU() })), ratioCPU,
			percent(func(r beatsResult) float64 { return r.Share }, rs),
			percent(func(r beatsResult) float64 { return r.waiting }, rs),
			percent(func(r beatsResult) float64 { return r.Others }, rs))
	}
	if holter, gnet := t[serverHolter], t[serverGnet]; len(holter) > 0 && len(gnet) > 0 {
		ratio := figures.Median(figures.Ratios(figures.Each(holter, rate), figures.Each(gnet, rate)))
		ratioCPU := figures.Median(figures.Ratios(figures.Each(holter, perCPU), figures.Each(gnet, perCPU)))
		fmt.Fprintf(w, "\nTarget: holter ÷ gnet at least %.1f: %s; per CPU second, which counts where the client is the limit: %s.\n",
			wantRatio, figures.Met(ratio >= wantRatio), figures.Met(ratioCPU >= wantRatio))
	}
}

func (b *bench) reportIdle(w *strings.Builder) {
	if len(b.idle) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### Idle connections: %d, greeted and answered\n\n", idleConnections)
	w.WriteString("Memory is what is left after a collection and `debug.FreeOSMemory`, less what was there before the first connection. " +
		"holter holds device, session and timer for each; its event log, of a fixed size, is full before.\n\n" +
		"| server | heap, B each | stacks, B each | resident, B each | connections/s | µs of CPU each |\n|---|---|---|---|---|---|\n")
	for _, server := range servers {
		rs := b.idle[server]
		if len(rs) == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", server,
			figures.Spread("%.0f", figures.Each(rs, func(r idleResult) float64 { return r.heap })),
			figures.Spread("%.0f", figures.Each(rs, func(r idleResult) float64 { return r.stacks })),
			figures.Spread("%.0f", figures.Each(rs, func(r idleResult) float64 { return r.resident })),
			figures.Spread("%.0f", figures.Each(rs, idleResult.rate)),
			figures.Spread("%.0f", figures.Each(rs, func(r idleResult) float64 { return float64(r.CPU.Microseconds()) / float64(r.connections) })))
	}
	if rs := b.idle[serverHolter]; len(rs) > 0 {
		user := figures.Median(figures.Each(rs, idleResult.user))
		resident := figures.Median(figures.Each(rs, func(r idleResult) float64 { return r.resident }))
		fmt.Fprintf(w, "\nTarget: at most %d B, heap and stacks: %s; resident: %s.\n", wantBytes, figures.Met(user <= wantBytes),
			figures.Met(resident <= wantBytes))
	}
}

func (b *bench) reportVerdicts(w *strings.Builder) {
	rs := b.verdicts
	if len(rs) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### Mass verdict: %d of %d devices fall silent at once, ttl=%v; %d beat every %v\n\n",
		verdictConnections-living, verdictConnections, verdictTTL, living, beatEvery)
	silent, repeated := verdictConnections-living, 0
	for _, r := range rs {
		repeated += r.repeated
	}
	count := func(f func(verdictResult) int) string { return figures.Spread("%d", figures.Each(rs, f)) }
	fmt.Fprintf(w, "Judged %s of %d; wrong verdicts %s, early ones %s, living devices cut off %s. The last heartbeats lie %s ms apart. Closing the connections, at the "+
		"gateway's pace, took %s s. The machine itself stalled for up to %s ms; %d measurements were made anew because it stalled for more than %v.\n\n",
		count(func(r verdictResult) int { return r.judged }), silent,
		count(func(r verdictResult) int { return r.wrong }), count(func(r verdictResult) int { return r.early }), count(func(r verdictResult) int { return r.cut }),
		milliseconds(rs, func(r verdictResult) time.Duration { return r.spread }),
		figures.Spread("%.1f", figures.Each(rs, func(r verdictResult) float64 { return r.closing.Seconds() })),
		milliseconds(rs, func(r verdictResult) time.Duration { return r.stall }), repeated, disturbed)
	w.WriteString("| ms | p50 | p99 | max |\n|---|---|---|---|\n")
	row := func(name string, f func(verdictResult) quantiles) {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", name,
			milliseconds(rs, func(r verdictResult) time.Duration { return f(r).p50 }),
			milliseconds(rs, func(r verdictResult) time.Duration { return f(r).p99 }),
			milliseconds(rs, func(r verdictResult) time.Duration { return f(r).max }))
	}
	row("verdict after its deadline", func(r verdictResult) quantiles { return r.lag })
	row("RTT of the living, before", func(r verdictResult) quantiles { return r.before.quantiles() })
	row("RTT of the living, while verdicts are made", func(r verdictResult) quantiles { return r.verdicts.quantiles() })
	row("RTT of the living, while connections are closed", func(r verdictResult) quantiles { return r.after.quantiles() })
	row("the client behind its plan", func(r verdictResult) quantiles { return r.late.quantiles() })
	all := !slices.ContainsFunc(rs, func(r verdictResult) bool { return r.judged != silent || r.wrong+r.early+r.cut > 0 })
	lag := figures.Median(figures.Each(rs, func(r verdictResult) time.Duration { return r.lag.p99 }))
	hurt := figures.Median(figures.Each(rs, verdictResult.hurt))
	fmt.Fprintf(w, "\nTargets: all judged, none wrong, early or cut off: %s; lag p99 at most %v: %s; RTT p99 at most doubled: %s (×%.2f).\n",
		figures.Met(all), wantLag, figures.Met(lag <= wantLag), figures.Met(hurt <= wantHurt), hurt)
}

// hurt returns how much longer the longest round trips became, those above the 99th percentile.
func (r verdictResult) hurt() float64 {
	during := newRTTs()
	during.Merge(r.verdicts.Histogram)
	during.Merge(r.after.Histogram)
	return float64(during.quantiles().p99) / float64(r.before.quantiles().p99)
}

func milliseconds(rs []verdictResult, f func(verdictResult) time.Duration) string {
	return figures.Spread("%.2f", figures.Each(rs, func(r verdictResult) float64 { return float64(f(r)) / 1e6 }))
}
