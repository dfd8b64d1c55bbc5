package e2e

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/loadgen/report"
)

// took returns a column of texts.
func took(title string, of func(*result) string) figures.Column[*result] {
	return figures.Text(title, func(_ string, rs []*result) string { return of(rs[0]) })
}

// bytes returns a column of bytes for each connection.
func (b *bench) bytes(title string, of func(*result) int) figures.Column[*result] {
	return figures.Col(title, 0, func(r *result) float64 { return float64(of(r)) / float64(b.connections) })
}

// judged are the columns of the verdicts.
func judged() []figures.Column[*result] {
	count := func(title string, of func(verdicts) uint64) figures.Column[*result] {
		return figures.Col(title, 0, func(r *result) float64 { return float64(of(r.verdicts())) })
	}
	return []figures.Column[*result]{
		count("right verdicts", func(v verdicts) uint64 { return v.right }),
		count("false offline", func(v verdicts) uint64 { return v.falseOffline }),
		count("missed offline", func(v verdicts) uint64 { return v.missed }),
		count("other mistakes", func(v verdicts) uint64 { return v.others }),
		took("latency p50 / p99 / max", func(r *result) string { return r.verdicts().latency }),
	}
}

// report returns all tables.
func (b *bench) report(rs []*result) string {
	results := make(map[string][]*result)
	var rows []string
	for _, r := range rs {
		rows = append(rows, r.name)
		results[r.name] = []*result{r}
	}
	mega := func(title string, of func(*result) int) figures.Column[*result] {
		return figures.Col(title, 0, func(r *result) float64 { return float64(of(r)) / 1e6 })
	}
	processes := "one process"
	if n := rs[0].servers; n > 1 {
		processes = fmt.Sprintf("%d processes", n)
	}
	return fmt.Sprintf("%s devices, each with a heartbeat every %v and a timeout of %v, of %s of `holter serve` with SQLite, each with a database and a device "+
		"port of its own: no process may open more than %s files here. Each server has a block of the devices, which always come back to it: behind "+
		"one shared port one could come back to another, and would rightly be offline for the first while it is online for the second. All of it, "+
		"servers, generator and both ends of each connection, is on one machine, and every scenario has new servers.\n\n%s\n"+
		"What the servers said of the devices, beside what was done to them (`--verify` for each server). The latency of a verdict is that from its "+
		"deadline to its arrival at the generator, through commit and event stream.\n\n%s\n"+
		"Memory at its most, without the kernel's but in the last column: that is how much less was available on the whole machine. CPU is that of the "+
		"whole run.\n\n%s%s",
		figures.Grouped(b.connections), b.interval, rs[0].final.Fleet.Timeout, processes, figures.Grouped(openFiles()),
		figures.Table("scenario", rows, results,
			figures.Count("connected", func(r *result) int { n, _ := r.ramp(); return n }),
			took("in", func(r *result) string { _, d := r.ramp(); return figures.Duration(d) }),
			figures.Col("heartbeats/s", 0, (*result).beats),
			took("RTT p50 / p99 / max", func(r *result) string { return latency(r.final.RTT.Latency) }),
			took("generator late, p99", func(r *result) string { return figures.Duration(time.Duration(r.final.Lateness.P99)) }),
			took("targets", func(r *result) string { return figures.Met(r.passed()) })),
		figures.Table("scenario", rows, results, judged()...),
		figures.Table("scenario", rows, results,
			mega("servers, MB", func(r *result) int { return r.usage.servers }), b.bytes("B each connection", func(r *result) int { return r.usage.servers }),
			mega("generator, MB", (*result).generatorMemory), b.bytes("B each connection", (*result).generatorMemory),
			b.bytes("whole machine, B each connection", func(r *result) int { return r.usage.machine }),
			took("servers' CPU", func(r *result) string { return figures.Duration(r.usage.cpu) }),
			took("generator's", func(r *result) string { return figures.Duration(r.generator) }),
			took("cores busy", func(r *result) string {
				return fmt.Sprintf("%.2f of %d", r.usage.busy.Seconds()/max(r.usage.elapsed.Seconds(), 0.001), runtime.NumCPU())
			})),
		missed(rs))
}

// missed lists why scenarios did not pass.
func missed(results []*result) string {
	var w strings.Builder
	oneLine := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	for _, r := range results {
		if r.passed() {
			continue
		}
		reasons := r.final.Outcome.Reasons
		if r.failed != nil {
			first, _, _ := strings.Cut(r.failed.Error(), "\n")
			reasons = append(slices.Clone(reasons), first)
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

// ramp returns how many devices were connected at most until the first phase began, and how long it took.
func (r *result) ramp() (welcomed int, took time.Duration) {
	var began report.Seconds
	for i := range r.final.Samples {
		s := &r.final.Samples[i]
		if s.Connects == 0 {
			began = s.At // the workers are being started
		}
		if s.Welcomed > welcomed {
			welcomed, took = s.Welcomed, time.Duration(s.At-began)
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
	return figures.Median(rates)
}

// generatorMemory returns the most bytes that the generator and its workers had.
func (r *result) generatorMemory() (most int) {
	for i := range r.final.Samples {
		most = max(most, int(r.final.Samples[i].Memory))
	}
	return most
}

// verdicts are counts of right and wrong ones, and the latency of the right ones.
type verdicts struct {
	right, falseOffline, missed, others uint64
	latency                             string
}

func (r *result) verdicts() (sum verdicts) {
	v := r.final.Verdicts
	if v == nil {
		return verdicts{latency: "–"}
	}
	sum.right, sum.latency = v.Right, latency(v.Detection.Latency)
	for _, one := range v.Mistakes {
		switch {
		case strings.HasPrefix(one.Name, "false offline"):
			sum.falseOffline += one.Count
		case strings.HasPrefix(one.Name, "missed offline"):
			sum.missed += one.Count
		case one.Allowed >= 0:
			sum.others += one.Count
		}
	}
	return sum
}

func latency(l report.Latency) string {
	if l.Count == 0 {
		return "–"
	}
	of := func(d report.Millis) string { return figures.Duration(time.Duration(d)) }
	return of(l.P50) + " / " + of(l.P99) + " / " + of(l.Max)
}
