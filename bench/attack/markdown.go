//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// wantWorse is how much longer the round trips of the established devices may become at their 99th percentile.
const wantWorse = 2.0

// markdown is the section of the documentation.
func (r *report) markdown() string {
	var w strings.Builder
	if len(r.results) > 0 {
		r.table(&w)
	}
	if r.haproxy != nil {
		w.WriteString(r.haproxy.markdown())
	}
	return w.String()
}

func (r *report) table(w *strings.Builder) {
	fmt.Fprintf(w, "`holter serve` on one core; %s established devices that beat every %v with a timeout of %v, and the attacker, a process of a lower priority, share the other one: "+
		"round trips hold what they do to each other, too. Each attack goes on for %v after %v of rest, which is \"before\"; rates and numbers × %g. "+
		"\"Done\" and \"failed\" are the attacker's connections, or writes. What was refused are the gateway's own counters.\n\n",
		figures.Grouped(r.options.devices), interval, timeout, r.options.length, r.options.rest, r.options.scale)
	w.WriteString("| attack | done/s | failed/s | memory, MB before → most | CPU, % of a core | RTT p99, ms before → during | × | refused | false offline | cut off | alive | machine stalled, ms |\n" +
		"|---|--:|--:|--:|--:|--:|--:|---|--:|--:|---|--:|\n")
	ms := func(us int64) float64 { return float64(us) / 1000 }
	for _, a := range r.results {
		per := a.length.Seconds()
		fmt.Fprintf(w, "| %s: %s | %.0f | %.0f | %.0f → %.0f | %.0f | %.2f → %.2f | %.1f | %s | %d | %d | %s | %d |\n", a.name, a.text,
			float64(a.outcome.Done)/per, float64(a.outcome.Failed)/per, float64(a.memory)/1e6, float64(a.most)/1e6, 100*a.cpu,
			ms(a.before.ValueAtQuantile(99)), ms(a.during.ValueAtQuantile(99)), a.worse(), strings.Join(a.refused, ", "),
			a.offline, a.cut, map[bool]string{true: "yes", false: "**no**"}[a.alive && a.answered], a.stall.Milliseconds())
	}
	all := !slices.ContainsFunc(r.results, func(a *result) bool { return !a.good() })
	calm := !slices.ContainsFunc(r.results, func(a *result) bool { return a.worse() > wantWorse })
	fmt.Fprintf(w, "\nTargets: none judged, none cut off, server alive: %s; RTT p99 at most doubled in each: %s.\n", figures.Met(all), figures.Met(calm))
}
