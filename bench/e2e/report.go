package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/loadgen/report"
)

// report returns all tables, as Markdown.
func (b *bench) report(header string, results []*result) string {
	var w strings.Builder
	w.WriteString(header)
	r := results[0]
	fmt.Fprintf(&w, `%s devices, each with a heartbeat every %v and a timeout of %v, of %s of `+"`holter serve`"+` with SQLite, each with a database and a device
port of its own: no process may open more than %s files here. Each server has a block of the devices, which always come back to it: behind
one shared port one could come back to another, and would rightly be offline for the first while it is online for the second. All of it,
servers, generator and both ends of each connection, is on one machine, and every scenario has fresh servers.

`,
		figures.Grouped(b.connections), b.interval, r.final.Fleet.Timeout, processes(r.servers), figures.Grouped(openFiles()))
	w.WriteString("| scenario | connected | in | heartbeats/s | RTT p50 / p99 / max | generator late, p99 | result |\n|---|---:|---:|---:|---:|---:|---|\n")
	for _, r := range results {
		welcomed, ramp := r.ramp()
		fmt.Fprintf(&w, "| %s | %s | %s | %s | %s | %s | %s |\n", r.name, figures.Grouped(welcomed), duration(ramp), figures.Grouped(int(r.beats())),
			latency(r.final.RTT.Latency), duration(r.final.Lateness.P99), r.verdict())
	}
	fmt.Fprintf(&w, "\nWhat the servers said of the devices, beside what was done to them (`--verify` for each server). The latency of a verdict is that from its "+
		"deadline to its arrival at the generator, through commit and event stream.\n\n")
	w.WriteString("| scenario | right verdicts | false offline | missed offline | other mistakes | latency p50 / p99 / max |\n|---|---:|---:|---:|---:|---:|\n")
	for _, r := range results {
		v := r.final.Verdicts
		if v == nil {
			fmt.Fprintf(&w, "| %s | | | | | |\n", r.name)
			continue
		}
		m := countMistakes(v.Mistakes)
		fmt.Fprintf(&w, "| %s | %s | %s | %s | %s | %s |\n", r.name, figures.Grouped(v.Right), figures.Grouped(m.falseOffline), figures.Grouped(m.missed), figures.Grouped(m.others),
			latency(v.Detection.Latency))
	}
	w.WriteString("\nMemory at its most, without the kernel's but in the last column: that is how much less was available on the whole machine. CPU is that of the " +
		"whole run.\n\n")
	w.WriteString("| scenario | servers | each connection | generator | each connection | whole machine, each connection | servers' CPU | generator's | cores busy |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range results {
		each := func(bytes uint64) string { return figures.Grouped(bytes/uint64(b.connections)) + " B" }
		memory := r.generatorMemory()
		fmt.Fprintf(&w, "| %s | %s | %s | %s | %s | %s | %s | %s | %.2f of %d |\n", r.name, mega(r.usage.servers), each(r.usage.servers), mega(memory), each(memory),
			each(r.usage.machine), duration(r.usage.cpu), duration(r.generator), r.usage.busy.Seconds()/max(r.usage.elapsed.Seconds(), 0.001), runtime.NumCPU())
	}
	return w.String() + missed(results)
}

// missed lists why scenarios did not pass.
func missed(results []*result) string {
	var w strings.Builder
	for _, r := range results {
		reasons := r.final.Outcome.Reasons
		if r.failed != nil {
			first, _, _ := strings.Cut(r.failed.Error(), "\n")
			reasons = append(slices.Clone(reasons), first)
		}
		if r.passed() {
			continue
		}
		for _, reason := range reasons {
			fmt.Fprintf(&w, "* %s: %s\n", r.name, oneLine(reason))
		}
		for _, h := range r.final.Hits {
			fmt.Fprintf(&w, "* %s: %s: %s\n", r.name, oneLine(h.Limit), oneLine(h.Evidence))
		}
	}
	if w.Len() == 0 {
		return ""
	}
	return "\nWhat was missed:\n\n" + w.String()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func processes(n int) string {
	if n == 1 {
		return "one process"
	}
	return fmt.Sprintf("%d processes", n)
}

func (r *result) verdict() string {
	if r.passed() {
		return "held"
	}
	return "**missed**"
}

// ramp returns how many devices were connected at most until the first phase began, and how long it took.
func (r *result) ramp() (welcomed int, took time.Duration) {
	var began time.Duration
	for i := range r.final.Samples {
		s := &r.final.Samples[i]
		if s.Connects == 0 {
			began = s.At // the workers are being started
		}
		if s.Welcomed > welcomed {
			welcomed, took = s.Welcomed, s.At-began
		}
		if s.Phase != report.Ramp {
			break // the last may be welcomed in the second in which it begins
		}
	}
	return welcomed, took
}

// beats returns the heartbeats answered per second after the ramp: the median of the seconds.
func (r *result) beats() float64 {
	var rates []float64
	for i := range r.final.Samples {
		if s := &r.final.Samples[i]; s.Phase != report.Ramp {
			rates = append(rates, s.Rate.Answered)
		}
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// generatorMemory is the most that the generator and its workers had.
func (r *result) generatorMemory() (most uint64) {
	for i := range r.final.Samples {
		most = max(most, r.final.Samples[i].Memory)
	}
	return most
}

// mistakes are counts of them.
type mistakes struct{ falseOffline, missed, others uint64 }

func countMistakes(list []report.Mistake) (m mistakes) {
	for _, one := range list {
		switch {
		case strings.HasPrefix(one.Name, "false offline"):
			m.falseOffline += one.Count
		case strings.HasPrefix(one.Name, "missed offline"):
			m.missed += one.Count
		case one.Allowed >= 0:
			m.others += one.Count
		}
	}
	return m
}

func latency(l report.Latency) string {
	if l.Count == 0 {
		return "–"
	}
	return duration(l.P50) + " / " + duration(l.P99) + " / " + duration(l.Max)
}

// duration shows three figures at most.
func duration(d time.Duration) string {
	switch {
	case d >= 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
}

func mega(bytes uint64) string { return figures.Grouped(bytes/1_000_000) + " MB" }
