package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"golang.org/x/sys/unix"
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

// hostHeader says where and how the figures were made.
func hostHeader(ctx context.Context, command string) string {
	var name unix.Utsname
	_ = unix.Uname(&name)
	first := func(name string, args ...string) string {
		out, _ := exec.CommandContext(ctx, name, args...).Output() // mosquitto -h ends with an error
		line, _, _ := strings.Cut(string(out), "\n")
		return strings.TrimSpace(line)
	}
	brokers := "mochi " + mochi.Version
	if program, ok := findMosquitto(); ok {
		brokers = strings.Replace(first(program, "-h"), "version ", "", 1) + ", " + brokers
	}
	commit := cmp.Or(first("git", "describe", "--always", "--dirty"), "unknown")
	return fmt.Sprintf("%s, %d cores; Linux %s; %s; %s; commit %s; `%s`\n\n", cpuModel(), runtime.NumCPU(),
		unix.ByteSliceToString(name.Release[:]), runtime.Version(), brokers, commit, strings.TrimSpace(command))
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
func each[T any, F figure](results []T, f func(T) F) []F {
	figures := make([]F, 0, len(results))
	for _, r := range results {
		figures = append(figures, f(r))
	}
	return figures
}

// figure is what has a mean.
type figure interface {
	~int | ~int64 | ~uint64 | ~float64
}

func median[F figure](figures []F) F {
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread formats the median, the least and the most.
func spread[F figure](format string, figures []F) string {
	one := func(f F) string { return fmt.Sprintf(format, f) }
	middle, least, most := one(median(figures)), one(slices.Min(figures)), one(slices.Max(figures))
	if least == most {
		return middle
	}
	return fmt.Sprintf("%s (%s–%s)", middle, least, most)
}

// ratios divides the figures of one by those of another, round by round.
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

func (b *bench) reportTaken(w *strings.Builder, title string, t table[Taken]) {
	if len(t) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### %s, %s devices\n\n", title, thousands(b.Devices))
	w.WriteString("| subscriber | messages/s | ÷ paho | CPU s per million | messages per CPU s ÷ paho | busy | driver | others | lost |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	against := func(rs []Taken, f func(Taken) float64) string {
		if len(t[subscriberPaho]) == 0 {
			return ""
		}
		return spread("%.2f", ratios(each(rs, f), each(t[subscriberPaho], f)))
	}
	percent := func(rs []Taken, f func(Taken) float64) string { return fmt.Sprintf("%.0f %%", 100*median(each(rs, f))) }
	for _, subscriber := range subscribers {
		rs := t[subscriber]
		if len(rs) == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", subscriber, spread("%.0f", each(rs, Taken.rate)), against(rs, Taken.rate),
			spread("%.2f", each(rs, Taken.perMillion)), against(rs, Taken.perCPU),
			percent(rs, func(r Taken) float64 { return r.Share }), percent(rs, func(r Taken) float64 { return r.Driver }),
			percent(rs, func(r Taken) float64 { return r.Others }), spread("%d", each(rs, func(r Taken) uint64 { return r.Lost })))
	}
	bridge, paho := t[subscriberBridge], t[subscriberPaho]
	if len(bridge) == 0 {
		return
	}
	rate := median(each(bridge, Taken.rate))
	fmt.Fprintf(w, "\nTargets: the bridge at least %s messages/s: %s", thousands(wantRate), met(rate >= wantRate))
	if len(paho) > 0 {
		ratio, perCPU := median(ratios(each(bridge, Taken.rate), each(paho, Taken.rate))), median(ratios(each(bridge, Taken.perCPU), each(paho, Taken.perCPU)))
		fmt.Fprintf(w, "; bridge ÷ paho at least %.1f: %s; per CPU second: %s", wantRatio, met(ratio >= wantRatio), met(perCPU >= wantRatio))
	}
	w.WriteString(".\n")
}

func (b *bench) reportSilence(w *strings.Builder, title string, all table[Silence], atOnce bool) {
	if len(all) == 0 {
		return
	}
	t, out := undisturbed(all)
	fmt.Fprintf(w, "\n### %s: %s of them, half with a keep alive of %v, half of %v\n\n", title, thousands(b.Clients), b.Odd, b.Even)
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
	count := func(g func(Lags) int) string { return spread("%d", each(rs, func(r Silence) int { return g(f(r)) })) }
	early := count(func(l Lags) int { return l.Early })
	if strings.HasSuffix(what, fromAnswer) {
		early = "–"
	}
	ms := func(g func(Lags) time.Duration) string {
		return spread("%.0f", each(rs, func(r Silence) float64 { return float64(g(f(r))) / 1e6 }))
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
		spread("%.0f", each(stalls, func(d time.Duration) float64 { return float64(d) / 1e6 })))
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
		"was judged: %s (%d); none late: %s (%d of %d", met(missing+wrong+early == 0), missing, wrong, early, met(ahead == 0), ahead, met(late == 0), late,
		b.Clients*len(rs))
	if atOnce {
		fmt.Fprintf(w, "; from the answer on: %s, %d", met(lateHeard == 0), lateHeard)
	}
	fmt.Fprintf(w, "). Its source was deaf %d times.\n", deaf)
}

// answers says how long the last pings took.
func answers(t table[Silence]) string {
	var all []string
	for _, server := range servers {
		if rs := t[server]; len(rs) > 0 {
			all = append(all, fmt.Sprintf("%s ms (%s)", spread("%.0f", each(rs, func(r Silence) float64 { return float64(r.Answered) / 1e6 })), server))
		}
	}
	return strings.Join(all, ", ")
}

func (b *bench) reportCosts(w *strings.Builder) {
	if len(b.Apart)+len(b.AtOnce) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### What %s clients cost\n\n", thousands(b.Clients))
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
		bytes := func(f func(Silence) float64) string { return spread("%.0f", each(rs, f)) }
		collected, heap, stacks := "–", "–", "–"
		if server != serverMosquitto {
			collected = bytes(func(r Silence) float64 { return r.Collected })
			heap, stacks = bytes(func(r Silence) float64 { return r.Heap }), bytes(func(r Silence) float64 { return r.Stacks })
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %.0f %% |\n", server,
			bytes(func(r Silence) float64 { return r.Resident }), collected, heap, stacks,
			spread("%.0f", each(rs, func(r Silence) float64 { return float64(b.Clients) / r.Connected.Seconds() })),
			spread("%.0f", each(rs, func(r Silence) float64 { return float64(r.Pings) / r.Elapsed.Seconds() })),
			spread("%.1f", each(rs, Silence.perPing)), 100*median(each(rs, func(r Silence) float64 { return r.Others })))
	}
}

// thousands formats a number for a person.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
