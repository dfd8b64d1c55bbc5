package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// The targets.
const (
	wantBare  = 0.85   // of the bare server's heartbeats
	wantBytes = 700    // of memory for each connection
	wantTLS   = 20_480 // the same for a connection of TLS
)

// What follows a protocol in the names of rows.
const (
	besideIt = "/" + serverBare
	overTLS  = "-tls"
)

// report returns all tables.
func (b *bench) report() string {
	var names []string
	for _, r := range rows() {
		if !slices.Contains(names, r.name()) {
			names = append(names, r.name())
		}
	}
	var w strings.Builder
	fmt.Fprintf(&w, "Each server has core 0 to itself with GOMAXPROCS=1, the load generator has core 1; %d rounds in turn. Figures are "+
		"medians, least and most in parentheses. PROTOCOL/bare is an event loop of gnet with the same codec, which answers every "+
		"message and keeps nothing. Busy, generator and others are shares of one core; others is all else on the machine.\n", b.Rounds)
	section := func(title, measurement, about string, columns []figures.Column[result]) {
		if table := figures.Table("protocol", names, b.results[measurement], columns...); table != "" {
			fmt.Fprintf(&w, "\n### %s\n\n%s\n\n%s", title, about, table)
		}
	}
	for _, batch := range batches() {
		measurement := row{batch: batch}.measurement()
		section(fmt.Sprintf("Heartbeats: %d connections, %d per write", b.connections, batch), measurement,
			fmt.Sprintf("A device sends as soon as it is answered. Target: at least %.2f of what the bare server answers, or "+
				"per CPU second where the generator is the limit.", wantBare),
			beatColumns(b.results[measurement]))
	}
	section(fmt.Sprintf("Idle connections: %d (with TLS %d), greeted and answered", b.idle, b.idleTLS), "idle",
		"Memory is what is left after a collection and `debug.FreeOSMemory`, less what was there before the first connection. "+
			"Holter holds device, session and timer for each; its event log, of a fixed size, is full before.", idleColumns())
	return w.String()
}

func beatColumns(results map[string][]result) []figures.Column[result] {
	over := func(row string) string { return strings.TrimSuffix(row, besideIt) + besideIt }
	rate := figures.Column[result]{Title: "÷ bare", Format: figures.Fixed(2), Of: result.rate, Over: over}
	perCPU := figures.Column[result]{Title: "per CPU second ÷ bare", Format: figures.Fixed(2), Of: result.perCPU, Over: over}
	met := func(c figures.Column[result], row string) string {
		return figures.Met(figures.Median(c.Figures(results, row)) >= wantBare)
	}
	return []figures.Column[result]{
		figures.Col("heartbeats/s", 0, result.rate), rate, figures.Col("µs of CPU each", 2, result.cost), perCPU,
		figures.Percent("server busy", func(r result) float64 { return r.Share }),
		figures.Percent("generator", func(r result) float64 { return r.Driver }),
		figures.Percent("others", func(r result) float64 { return r.Others }),
		figures.Text("target", func(row string, _ []result) string {
			if row == over(row) {
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
		figures.Col("connections/s", 0, result.rate), figures.Col("µs of CPU each", 0, result.cost),
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
