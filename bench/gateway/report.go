package gateway

import (
	"fmt"
	"math"
	"strings"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
)

// The targets.
const (
	wantEcho  = 0.85   // of the echo's messages
	wantBytes = 900    // of memory for each connection
	wantTLS   = 20_480 // the same for a connection of TLS
)

// besideIt follows the name of a dialect in that of the server beside which it is measured.
const besideIt = "/" + serverEcho

// result is what a row of one round comes to.
type result struct {
	connecting load
	memory     measured.Memory // of all connections together
	beats      []load          // by batches; none of TLS
}

// each returns a part of the memory for each connection.
func (r result) each(bytes int) float64 { return float64(bytes) / float64(r.connecting.n) }

// load is how a server took connections, or messages.
type load struct {
	measured.Usage

	n       int
	waiting float64 // share of the time for which the client had nothing to do: near to 0, it is the limit
}

// rate returns how many there were per second, perCPU per second of the server's CPU time, and cost
// how many microseconds of that each took.
func (l load) rate() float64   { return float64(l.n) / l.Elapsed.Seconds() }
func (l load) perCPU() float64 { return float64(l.n) / l.CPU.Seconds() }
func (l load) cost() float64   { return 1e6 / l.perCPU() }

// report returns all tables.
func report(results map[string][]result, rounds, connections int) string {
	var w strings.Builder
	fmt.Fprintf(&w, "Each server has core 0 to itself with GOMAXPROCS=1, the client has core 1; %d rounds in turn. "+
		"Figures are medians, least and most in parentheses. PROTOCOL/echo is an event loop of gnet that sends back what it "+
		"reads, of the same messages, understanding nothing. Each has %d connections (with TLS at most %d), of which at most "+
		"%d beat. Busy, waiting and others are shares of one core; others is all else on the machine.\n",
		rounds, connections, secure, beating)
	var names []string
	for _, r := range rows() {
		names = append(names, r.name())
	}
	section := func(title, about string, columns []figures.Column[result]) {
		if table := figures.Table("protocol", names, results, columns...); table != "" {
			fmt.Fprintf(&w, "\n### %s\n\n%s\n\n%s", title, about, table)
		}
	}
	for i, batch := range batches() {
		section(fmt.Sprintf("Heartbeats, messages per write: %d", batch),
			fmt.Sprintf("Target: at least %.2f of the echo's messages, or per CPU second where the client is the limit; "+
				"none for UDP.", wantEcho),
			beatColumns(results, i))
	}
	section("Idle connections, greeted and answered",
		"Memory is what is left after a collection and `debug.FreeOSMemory`, less what was there before the first connection. "+
			"Holter holds device, session and timer for each; its event log, of a fixed size, is full before.",
		idleColumns())
	return w.String()
}

// beatColumns are those of a batch.
func beatColumns(results map[string][]result, batch int) []figures.Column[result] {
	of := func(figure func(load) float64) func(result) float64 {
		return func(r result) float64 {
			if batch >= len(r.beats) {
				return math.NaN()
			}
			return figure(r.beats[batch])
		}
	}
	over := func(row string) string { return strings.TrimSuffix(row, besideIt) + besideIt }
	rate := figures.Column[result]{Title: "÷ echo", Format: figures.Fixed(2), Of: of(load.rate), Over: over}
	perCPU := figures.Column[result]{Title: "per CPU s ÷ echo", Format: figures.Fixed(2), Of: of(load.perCPU), Over: over}
	met := func(c figures.Column[result], row string) string {
		return figures.Met(figures.Median(c.Figures(results, row)) >= wantEcho)
	}
	return []figures.Column[result]{
		figures.Col("messages/s", 0, of(load.rate)), rate, figures.Col("µs of CPU per message", 2, of(load.cost)), perCPU,
		figures.Percent("server busy", of(func(l load) float64 { return l.Share })),
		figures.Percent("client waiting", of(func(l load) float64 { return l.waiting })),
		figures.Percent("others", of(func(l load) float64 { return l.Others })),
		figures.Text("target", func(row string, _ []result) string {
			if row == over(row) || strings.HasSuffix(row, overUDP) {
				return "–"
			}
			return met(rate, row) + "; per CPU second " + met(perCPU, row)
		}),
	}
}

func idleColumns() []figures.Column[result] {
	user := func(r result) float64 { return r.each(r.memory.Heap + r.memory.Stacks) }
	resident := func(r result) float64 { return r.each(r.memory.Resident) }
	targets := map[string]float64{"line": wantBytes, "line" + overTLS: wantTLS}
	return []figures.Column[result]{
		figures.Col("heap, B each", 0, func(r result) float64 { return r.each(r.memory.Heap) }),
		figures.Col("stacks, B each", 0, func(r result) float64 { return r.each(r.memory.Stacks) }),
		figures.Col("resident, B each", 0, resident),
		figures.Col("connections/s", 0, func(r result) float64 { return r.connecting.rate() }),
		figures.Col("µs of CPU each", 0, func(r result) float64 { return r.connecting.cost() }),
		figures.Text("target", func(row string, rs []result) string {
			want, ok := targets[row]
			if !ok {
				return "–"
			}
			met := func(of func(result) float64) string { return figures.Met(figures.Median(figures.Each(rs, of)) <= want) }
			return fmt.Sprintf("at most %.0f B, heap and stacks: %s; resident: %s", want, met(user), met(resident))
		}),
	}
}
