package mqtt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// The targets.
const (
	wantRate  = 100_000 // messages per second that the bridge takes on one core
	wantRatio = 0.9     // of what a client takes that only counts
)

// report returns all tables.
func (b *bench) report() string {
	return "What is measured has core 0 to itself with GOMAXPROCS=1, what drives it has core 1; all take turns, round by round, and ratios are " +
		"taken within a round. Figures are medians, least and most in parentheses. \"Others\" is the time for which other programs had one of the " +
		"cores, in percent of a core; the kernel's own work is among it.\n" +
		b.reportRelay() +
		b.reportSilence("Silent clients, one after the other", apart) +
		b.reportSilence("Silent clients, all at one instant", atOnce) +
		b.reportCosts()
}

func (b *bench) reportRelay() string {
	rate, perCPU := figures.Ratio("÷ paho", taken.rate, subscriberPaho), figures.Ratio("messages per CPU s ÷ paho", taken.perCPU, subscriberPaho)
	table := figures.Table("subscriber", subscribers(), b.relayed,
		figures.Col("messages/s", 0, taken.rate), rate, figures.Col("CPU s per million", 2, taken.perMillion), perCPU,
		figures.Percent("busy", func(r taken) float64 { return r.Share }), figures.Percent("driver", func(r taken) float64 { return r.Driver }),
		figures.Percent("others", func(r taken) float64 { return r.Others }), figures.Count("lost", func(r taken) int { return int(r.lost) }))
	if table == "" {
		return ""
	}
	text := fmt.Sprintf("\n### Messages into the engine: by way of mosquitto, %s devices\n\n%s", figures.Grouped(b.devices), table)
	if rs := b.relayed[subscriberBridge]; len(rs) > 0 {
		met := func(c figures.Column[taken]) string {
			return figures.Met(figures.Median(c.Figures(b.relayed, subscriberBridge)) >= wantRatio)
		}
		text += fmt.Sprintf("\nTargets: the bridge at least %s messages/s: %s; bridge ÷ paho at least %.1f: %s; per CPU second: %s.\n",
			figures.Grouped(wantRate), figures.Met(figures.Median(figures.Each(rs, taken.rate)) >= wantRate), wantRatio, met(rate), met(perCPU))
	}
	return text
}

// fromAnswer marks deadlines that lie one and a half keep alives after the answer to the last packet was seen: a moment after the broker
// began to count, so what is early cannot be told.
const fromAnswer = ", from the answer on"

func (b *bench) reportSilence(title, measurement string) string {
	all := b.silence[measurement]
	if len(all) == 0 {
		return ""
	}
	kept, out := undisturbed(all)
	for _, rs := range all {
		for _, r := range rs {
			out += r.repeated
		}
	}
	var rows []string
	results := make(map[string][]lags)
	add := func(row string, rs []silence, of func(silence) lags) {
		if slices.ContainsFunc(rs, func(r silence) bool { return of(r).n > 0 }) {
			rows = append(rows, row)
			for _, r := range rs {
				results[row] = append(results[row], of(r))
			}
		}
	}
	for _, broker := range brokers() {
		for k, keepAlive := range []time.Duration{b.odd, b.even} {
			of, rs := fmt.Sprintf("%s | %v | ", broker, keepAlive), kept[broker]
			add(of+"verdict", rs, func(r silence) lags { return r.verdict[k] })
			add(of+"connection closed", rs, func(r silence) lags { return r.closed[k] })
			if measurement == atOnce {
				what := "connection closed" + fromAnswer
				if broker == brokerHolter {
					what = "verdict" + fromAnswer
				}
				add(of+what, rs, func(r silence) lags { return r.heard[k] })
			}
		}
	}
	ms := func(title string, of func(lags) time.Duration) figures.Column[lags] {
		return figures.Time(title, 0, time.Millisecond, of)
	}
	early := figures.Count("early", func(l lags) int { return l.early })
	table := figures.Table("broker | keep alive | what", rows, results,
		figures.Count("of how many", func(l lags) int { return l.n }),
		figures.Text("early", func(row string, rs []lags) string {
			if strings.HasSuffix(row, fromAnswer) {
				return "–"
			}
			return figures.Spread(early.Format, figures.Each(rs, early.Of))
		}),
		figures.Count("late", func(l lags) int { return l.over }),
		ms("least", func(l lags) time.Duration { return l.min }), ms("p50", func(l lags) time.Duration { return l.p50 }),
		ms("p99", func(l lags) time.Duration { return l.p99 }), ms("most", func(l lags) time.Duration { return l.max }))
	table = strings.Replace(table, "\n|---|", "\n|---|---|---|", 1) // the name of a row is three cells
	return fmt.Sprintf("\n### %s: %s of them, half with a keep alive of %v, half of %v\n\nMilliseconds from the deadline, which is one and a half keep alives "+
		"after the client began to send its last packet, to what followed. Late: after more than 1 %% of that time and 100 ms.\n\n%s\n"+
		"%d measurements were left out because the machine itself stalled for more than %v.\n%s",
		title, figures.Grouped(b.clients), b.odd, b.even, table, out, disturbed, b.conclude(kept, measurement == atOnce))
}

// conclude says what else happened, and whether the targets are met.
func (b *bench) conclude(results map[string][]silence, atOnce bool) string {
	var w strings.Builder
	cut, open := 0, 0
	var stalls []float64
	var answers []string
	for _, broker := range brokers() {
		rs := results[broker]
		for _, r := range rs {
			cut, open = cut+r.cut, open+r.open
			stalls = append(stalls, figures.Millis(r.stall))
		}
		if len(rs) > 0 {
			answered := figures.Each(rs, func(r silence) float64 { return figures.Millis(r.answered) })
			answers = append(answers, fmt.Sprintf("%s ms (%s)", figures.Spread(figures.Fixed(0), answered), broker))
		}
	}
	if atOnce {
		fmt.Fprintf(&w, "\nThe last pings, all sent at once, were answered after up to %s: so long they waited to be read, and no broker counts before.\n",
			strings.Join(answers, ", "))
	}
	fmt.Fprintf(&w, "\nClosed by a broker while the client pinged: %d; never closed: %d. The longest stalls of the machine: %s ms.\n", cut, open,
		figures.Spread(figures.Fixed(0), stalls))
	rs := results[brokerHolter]
	if len(rs) == 0 {
		return w.String()
	}
	missing, wrong, early, late, lateHeard, ahead, deaf := 0, 0, 0, 0, 0, 0, 0
	for _, r := range rs {
		missing += b.clients - r.verdict[0].n - r.verdict[1].n
		early += r.verdict[0].early + r.verdict[1].early
		late += r.verdict[0].over + r.verdict[1].over
		lateHeard += r.heard[0].over + r.heard[1].over
		wrong, ahead, deaf = wrong+r.wrong, ahead+r.ahead, deaf+r.deaf
	}
	fmt.Fprintf(&w, "\nTargets for holter: all judged, for silence, none early: %s (%d missing, %d wrong, %d early); no connection closed before its client "+
		"was judged: %s (%d); none late: %s (%d of %d", figures.Met(missing+wrong+early == 0), missing, wrong, early, figures.Met(ahead == 0), ahead,
		figures.Met(late == 0), late, b.clients*len(rs))
	if atOnce {
		fmt.Fprintf(&w, "; from the answer on: %s, %d", figures.Met(lateHeard == 0), lateHeard)
	}
	fmt.Fprintf(&w, "). Its source was deaf %d times.\n", deaf)
	return w.String()
}

func (b *bench) reportCosts() string {
	results := make(map[string][]silence)
	for _, measurement := range []string{apart, atOnce} {
		kept, _ := undisturbed(b.silence[measurement])
		for broker, rs := range kept {
			results[broker] = append(results[broker], rs...)
		}
	}
	// mosquitto has no garbage to collect.
	collected := func(title string, of func(silence) float64) figures.Column[silence] {
		return figures.Text(title, func(row string, rs []silence) string {
			if row == brokerMosquitto {
				return "–"
			}
			return figures.Spread(figures.Fixed(0), figures.Each(rs, of))
		})
	}
	table := figures.Table("broker", brokers(), results,
		figures.Col("resident, B each", 0, func(r silence) float64 { return r.resident }),
		collected("collected, B each", func(r silence) float64 { return r.collected }),
		collected("heap, B each", func(r silence) float64 { return r.heap }),
		collected("stacks, B each", func(r silence) float64 { return r.stacks }),
		figures.Col("connections/s", 0, func(r silence) float64 { return float64(b.clients) / r.connected.Seconds() }),
		figures.Col("pings/s", 0, func(r silence) float64 { return float64(r.pings) / r.Elapsed.Seconds() }),
		figures.Col("µs of CPU per PINGREQ", 1, silence.perPing),
		figures.Percent("others", func(r silence) float64 { return r.Others }))
	if table == "" {
		return ""
	}
	return fmt.Sprintf("\n### What %s clients cost\n\nResident memory after all have connected, less what was there before the first; then the same after a "+
		"collection of garbage and `debug.FreeOSMemory`, for programs of Go. holter holds device, session and timer for each. CPU for each PINGREQ, while "+
		"every client pings twice in its keep alive; what the broker does on its own is among it.\n\n%s", figures.Grouped(b.clients), table)
}
