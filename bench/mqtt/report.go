package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// The targets.
const (
	wantRate  = 100_000 // messages per second that the bridge takes on one core
	wantRatio = 0.9     // of what a client takes that only counts
)

// report returns all tables, as Markdown.
func (b *bench) report(header string) string {
	var w strings.Builder
	w.WriteString(header)
	w.WriteString("What is measured has core 0 to itself with GOMAXPROCS=1, what drives it has core 1; all take turns, round by round, and ratios are " +
		"taken within a round. Figures are medians, least and most in parentheses. \"Others\" is the time for which other programs had one of the " +
		"cores, in percent of a core; the kernel's own work is among it.\n")
	b.reportTaken(&w, "Messages into the engine: a prepared stream", b.Replay)
	b.reportTaken(&w, "Messages into the engine: by way of mosquitto", b.Relay)
	b.reportSilence(&w, "Silent clients, one after the other", b.Apart, false)
	b.reportSilence(&w, "Silent clients, all at one instant", b.AtOnce, true)
	b.reportCosts(&w)
	return w.String()
}

// brokers says which ones there are.
func brokers(ctx context.Context) string {
	all := "mochi " + mochi.Version
	if program, ok := findMosquitto(); ok {
		out, _ := exec.CommandContext(ctx, program, "-h").Output() // it ends with an error
		version, _, _ := strings.Cut(string(out), "\n")
		all = strings.Replace(strings.TrimSpace(version), "version ", "", 1) + ", " + all
	}
	return all
}

func (b *bench) reportTaken(w *strings.Builder, title string, t table[Taken]) {
	if len(t) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### %s, %s devices\n\n", title, figures.Grouped(b.Devices))
	w.WriteString("| subscriber | messages/s | ÷ paho | CPU s per million | messages per CPU s ÷ paho | busy | driver | others | lost |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	against := func(rs []Taken, f func(Taken) float64) string {
		if len(t[subscriberPaho]) == 0 {
			return ""
		}
		return figures.Spread("%.2f", figures.Ratios(figures.Each(rs, f), figures.Each(t[subscriberPaho], f)))
	}
	percent := func(rs []Taken, f func(Taken) float64) string {
		return fmt.Sprintf("%.0f %%", 100*figures.Median(figures.Each(rs, f)))
	}
	for _, subscriber := range subscribers {
		rs := t[subscriber]
		if len(rs) == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", subscriber, figures.Spread("%.0f", figures.Each(rs, Taken.rate)), against(rs, Taken.rate),
			figures.Spread("%.2f", figures.Each(rs, Taken.perMillion)), against(rs, Taken.perCPU),
			percent(rs, func(r Taken) float64 { return r.Share }), percent(rs, func(r Taken) float64 { return r.Driver }),
			percent(rs, func(r Taken) float64 { return r.Others }), figures.Spread("%d", figures.Each(rs, func(r Taken) uint64 { return r.Lost })))
	}
	bridge, paho := t[subscriberBridge], t[subscriberPaho]
	if len(bridge) == 0 {
		return
	}
	rate := figures.Median(figures.Each(bridge, Taken.rate))
	fmt.Fprintf(w, "\nTargets: the bridge at least %s messages/s: %s", figures.Grouped(wantRate), figures.Met(rate >= wantRate))
	if len(paho) > 0 {
		ratio, perCPU := figures.Median(figures.Ratios(figures.Each(bridge, Taken.rate), figures.Each(paho, Taken.rate))), figures.Median(figures.Ratios(figures.Each(bridge, Taken.perCPU), figures.Each(paho, Taken.perCPU)))
		fmt.Fprintf(w, "; bridge ÷ paho at least %.1f: %s; per CPU second: %s", wantRatio, figures.Met(ratio >= wantRatio), figures.Met(perCPU >= wantRatio))
	}
	w.WriteString(".\n")
}

func (b *bench) reportSilence(w *strings.Builder, title string, all table[Silence], atOnce bool) {
	if len(all) == 0 {
		return
	}
	t, out := undisturbed(all)
	fmt.Fprintf(w, "\n### %s: %s of them, half with a keep alive of %v, half of %v\n\n", title, figures.Grouped(b.Clients), b.Odd, b.Even)
	w.WriteString("Milliseconds from the deadline, which is one and a half keep alives after the client began to send its last packet, to what is " +
		"said. Late: after more than 1 % of that time and 100 ms.\n\n" +
		"| broker | keep alive | what | of how many | early | late | least | p50 | p99 | most |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, server := range servers {
		for k, keepAlive := range []time.Duration{b.Odd, b.Even} {
			reportLags(w, server, keepAlive, "verdict", t[server], func(r Silence) Lags { return r.Verdict[k] })
			reportLags(w, server, keepAlive, "connection closed", t[server], func(r Silence) Lags { return r.Closed[k] })
			if atOnce {
				what := "connection closed" + fromAnswer
				if server == serverHolter {
					what = "verdict" + fromAnswer
				}
				reportLags(w, server, keepAlive, what, t[server], func(r Silence) Lags { return r.Heard[k] })
			}
		}
	}
	for _, rs := range all {
		for _, r := range rs {
			out += r.Repeated
		}
	}
	fmt.Fprintf(w, "\n%d measurements were left out because the machine itself stalled for more than %v.\n", out, disturbed)
	b.conclude(w, t, atOnce)
}

// fromAnswer says that a deadline is one and a half keep alives after the answer to the last packet was seen: a moment after the broker began
// to count, so what is early cannot be told.
const fromAnswer = ", from the answer on"

func reportLags(w *strings.Builder, server string, keepAlive time.Duration, what string, rs []Silence, f func(Silence) Lags) {
	if !slices.ContainsFunc(rs, func(r Silence) bool { return f(r).N > 0 }) {
		return
	}
	count := func(g func(Lags) int) string {
		return figures.Spread("%d", figures.Each(rs, func(r Silence) int { return g(f(r)) }))
	}
	early := count(func(l Lags) int { return l.Early })
	if strings.HasSuffix(what, fromAnswer) {
		early = "–"
	}
	ms := func(g func(Lags) time.Duration) string {
		return figures.Spread("%.0f", figures.Each(rs, func(r Silence) float64 { return float64(g(f(r))) / 1e6 }))
	}
	fmt.Fprintf(w, "| %s | %v | %s | %s | %s | %s | %s | %s | %s | %s |\n", server, keepAlive, what,
		count(func(l Lags) int { return l.N }), early, count(func(l Lags) int { return l.Over }),
		ms(func(l Lags) time.Duration { return l.Min }), ms(func(l Lags) time.Duration { return l.P50 }),
		ms(func(l Lags) time.Duration { return l.P99 }), ms(func(l Lags) time.Duration { return l.Max }))
}

// conclude says what else happened, and whether the targets are met.
func (b *bench) conclude(w *strings.Builder, t table[Silence], atOnce bool) {
	cut, open := 0, 0
	var stalls []time.Duration
	for _, rs := range t {
		for _, r := range rs {
			cut, open = cut+r.Cut, open+r.Open
			stalls = append(stalls, r.Stall)
		}
	}
	if atOnce {
		fmt.Fprintf(w, "\nThe last pings, all sent at once, were answered after up to %s: so long they waited to be read, and no broker counts before.\n",
			answers(t))
	}
	fmt.Fprintf(w, "\nClosed by a broker while the client pinged: %d; never closed: %d. The longest stalls of the machine: %s ms.\n", cut, open,
		figures.Spread("%.0f", figures.Each(stalls, func(d time.Duration) float64 { return float64(d) / 1e6 })))
	rs := t[serverHolter]
	if len(rs) == 0 {
		return
	}
	missing, wrong, early, late, lateHeard, ahead, deaf := 0, 0, 0, 0, 0, 0, 0
	for _, r := range rs {
		missing += b.Clients - r.Verdict[0].N - r.Verdict[1].N
		early += r.Verdict[0].Early + r.Verdict[1].Early
		late += r.Verdict[0].Over + r.Verdict[1].Over
		lateHeard += r.Heard[0].Over + r.Heard[1].Over
		wrong, ahead, deaf = wrong+r.Wrong, ahead+r.Ahead, deaf+r.Deaf
	}
	fmt.Fprintf(w, "\nTargets for holter: all judged, for silence, none early: %s (%d missing, %d wrong, %d early); no connection closed before its client "+
		"was judged: %s (%d); none late: %s (%d of %d", figures.Met(missing+wrong+early == 0), missing, wrong, early, figures.Met(ahead == 0), ahead, figures.Met(late == 0), late,
		b.Clients*len(rs))
	if atOnce {
		fmt.Fprintf(w, "; from the answer on: %s, %d", figures.Met(lateHeard == 0), lateHeard)
	}
	fmt.Fprintf(w, "). Its source was deaf %d times.\n", deaf)
}

// answers says how long the last pings took.
func answers(t table[Silence]) string {
	var all []string
	for _, server := range servers {
		if rs := t[server]; len(rs) > 0 {
			all = append(all, fmt.Sprintf("%s ms (%s)", figures.Spread("%.0f", figures.Each(rs, func(r Silence) float64 { return float64(r.Answered) / 1e6 })), server))
		}
	}
	return strings.Join(all, ", ")
}

func (b *bench) reportCosts(w *strings.Builder) {
	if len(b.Apart)+len(b.AtOnce) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### What %s clients cost\n\n", figures.Grouped(b.Clients))
	apart, _ := undisturbed(b.Apart)
	atOnce, _ := undisturbed(b.AtOnce)
	w.WriteString("Resident memory after all have connected, less what was there before the first; then the same after a collection of garbage and " +
		"`debug.FreeOSMemory`, for those who have that. holter holds device, session and timer for each. CPU for each PINGREQ, while every client " +
		"pings twice in its keep alive; what the broker does on its own is among it.\n\n" +
		"| broker | resident, B each | collected, B each | heap, B each | stacks, B each | connections/s | pings/s | µs of CPU per PINGREQ | others |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, server := range servers {
		rs := slices.Concat(apart[server], atOnce[server])
		if len(rs) == 0 {
			continue
		}
		bytes := func(f func(Silence) float64) string { return figures.Spread("%.0f", figures.Each(rs, f)) }
		collected, heap, stacks := "–", "–", "–"
		if server != serverMosquitto {
			collected = bytes(func(r Silence) float64 { return r.Collected })
			heap, stacks = bytes(func(r Silence) float64 { return r.Heap }), bytes(func(r Silence) float64 { return r.Stacks })
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %.0f %% |\n", server,
			bytes(func(r Silence) float64 { return r.Resident }), collected, heap, stacks,
			figures.Spread("%.0f", figures.Each(rs, func(r Silence) float64 { return float64(b.Clients) / r.Connected.Seconds() })),
			figures.Spread("%.0f", figures.Each(rs, func(r Silence) float64 { return float64(r.Pings) / r.Elapsed.Seconds() })),
			figures.Spread("%.1f", figures.Each(rs, Silence.perPing)), 100*figures.Median(figures.Each(rs, func(r Silence) float64 { return r.Others })))
	}
}
