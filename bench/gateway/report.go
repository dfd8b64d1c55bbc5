package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The targets.
const (
	wantRatio = 0.9                   // of gnet's messages
	wantBytes = 900                   // of user memory for each connection
	wantLag   = 50 * time.Millisecond // of 99 % of the verdicts
	wantHurt  = 2.0                   // RTT p99 while verdicts are made and connections closed, to that before
)

// report returns all tables, as Markdown.
func (b *bench) report(header string) string {
	var w strings.Builder
	w.WriteString(header)
	fmt.Fprintf(&w, "Each server has core 0 to itself with GOMAXPROCS=1, the client has core 1; %d rounds in turn. "+
		"Figures are medians, least and most in parentheses. CPU is in percent of one core, \"others\" is all else on the machine.\n",
		b.config.rounds)
	b.reportBeats(&w, "one message per read", b.beats1)
	b.reportBeats(&w, fmt.Sprintf("%d messages per write", pipelined), b.beats16)
	b.reportIdle(&w)
	b.reportVerdicts(&w)
	return w.String()
}

// hostHeader says where and how the figures were made.
func hostHeader(ctx context.Context, command string) string {
	var name unix.Utsname
	_ = unix.Uname(&name)
	commit := "unknown"
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%s; %s, %d cores; Linux %s; %s; commit %s; `%s`\n\n", time.Now().Format(time.DateOnly), cpuModel(), runtime.NumCPU(),
		unix.ByteSliceToString(name.Release[:]), runtime.Version(), commit, strings.TrimSpace(command))
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// each returns one figure of all results.
func each[T any, F cmp.Ordered](results []T, f func(T) F) []F {
	figures := make([]F, 0, len(results))
	for _, r := range results {
		figures = append(figures, f(r))
	}
	return figures
}

func median[F cmp.Ordered](figures []F) F {
	return slices.Sorted(slices.Values(figures))[len(figures)/2]
}

// spread formats the median, the least and the most.
func spread[F cmp.Ordered](format string, figures []F) string {
	one := func(f F) string { return fmt.Sprintf(format, f) }
	return fmt.Sprintf("%s (%s–%s)", one(median(figures)), one(slices.Min(figures)), one(slices.Max(figures)))
}

// ratios divides the figures of one server by those of another, round by round.
func ratios(a, b []float64) []float64 {
	out := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		out = append(out, a[i]/b[i])
	}
	return out
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "**missed**"
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
		return fmt.Sprintf("%.0f %%", 100*median(each(rs, f)))
	}
	for _, server := range servers {
		rs := t[server]
		if len(rs) == 0 {
			continue
		}
		ratio, ratioCPU := "", ""
		if gnet := t[serverGnet]; len(gnet) > 0 {
			ratio = spread("%.2f", ratios(each(rs, rate), each(gnet, rate)))
			ratioCPU = spread("%.2f", ratios(each(rs, perCPU), each(gnet, perCPU)))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", server, spread("%.0f", each(rs, rate)), ratio,
			spread("%.2f", each(rs, func(r beatsResult) float64 { return 1e6 / r.perCPU() })), ratioCPU,
			percent(func(r beatsResult) float64 { return r.serverShare }, rs),
			percent(func(r beatsResult) float64 { return r.waiting }, rs),
			percent(func(r beatsResult) float64 { return r.otherShare }, rs))
	}
	if holter, gnet := t[serverHolter], t[serverGnet]; len(holter) > 0 && len(gnet) > 0 {
		ratio := median(ratios(each(holter, rate), each(gnet, rate)))
		ratioCPU := median(ratios(each(holter, perCPU), each(gnet, perCPU)))
		fmt.Fprintf(w, "\nTarget: holter ÷ gnet at least %.1f: %s; per CPU second, which counts where the client is the limit: %s.\n",
			wantRatio, met(ratio >= wantRatio), met(ratioCPU >= wantRatio))
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
			spread("%.0f", each(rs, func(r idleResult) float64 { return r.heap })),
			spread("%.0f", each(rs, func(r idleResult) float64 { return r.stacks })),
			spread("%.0f", each(rs, func(r idleResult) float64 { return r.resident })),
			spread("%.0f", each(rs, idleResult.rate)),
			spread("%.0f", each(rs, func(r idleResult) float64 { return float64(r.server.Microseconds()) / idleConnections })))
	}
	if rs := b.idle[serverHolter]; len(rs) > 0 {
		user := median(each(rs, idleResult.user))
		resident := median(each(rs, func(r idleResult) float64 { return r.resident }))
		fmt.Fprintf(w, "\nTarget: at most %d B, heap and stacks: %s; resident: %s.\n", wantBytes, met(user <= wantBytes),
			met(resident <= wantBytes))
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
	count := func(f func(verdictResult) int) string { return spread("%d", each(rs, f)) }
	fmt.Fprintf(w, "Judged %s of %d; wrong verdicts %s, early ones %s, living devices cut off %s. The last heartbeats lie %s ms apart. Closing the connections, at the "+
		"gateway's pace, took %s s. The machine itself stalled for up to %s ms; %d measurements were made anew because it stalled for more than %v.\n\n",
		count(func(r verdictResult) int { return r.judged }), silent,
		count(func(r verdictResult) int { return r.wrong }), count(func(r verdictResult) int { return r.early }), count(func(r verdictResult) int { return r.cut }),
		milliseconds(rs, func(r verdictResult) time.Duration { return r.spread }),
		spread("%.1f", each(rs, func(r verdictResult) float64 { return r.closing.Seconds() })),
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
	lag := median(each(rs, func(r verdictResult) time.Duration { return r.lag.p99 }))
	hurt := median(each(rs, verdictResult.hurt))
	fmt.Fprintf(w, "\nTargets: all judged, none wrong, early or cut off: %s; lag p99 at most %v: %s; RTT p99 at most doubled: %s (×%.2f).\n",
		met(all), wantLag, met(lag <= wantLag), met(hurt <= wantHurt), hurt)
}

// hurt returns how much longer the longest round trips became, those above the 99th percentile.
func (r verdictResult) hurt() float64 {
	during := newRTTs()
	during.Merge(r.verdicts.Histogram)
	during.Merge(r.after.Histogram)
	return float64(during.quantiles().p99) / float64(r.before.quantiles().p99)
}

func milliseconds(rs []verdictResult, f func(verdictResult) time.Duration) string {
	return spread("%.2f", each(rs, func(r verdictResult) float64 { return float64(f(r)) / 1e6 }))
}
