package e2e

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
)

// result is what came of a scenario.
type result struct {
	scenario

	usage  usage
	final  report.Final
	failed error // why it does not count as passed although the generator says so; nil if it does

	connected int           // devices, at most, until the first phase began,
	in        time.Duration // and how long that took
	beats     float64       // heartbeats answered per second after that: the median of the seconds,
	each      moment        // and the CPU time that each took; zero if it is not known
	memory    int           // bytes of the generator and its workers, at most
}

func (r *result) passed() bool { return r.failed == nil && r.final.Outcome.Passed }

// digest fills in what follows from the seconds of the run.
func (r *result) digest() {
	var began report.Seconds
	var rates []float64
	for i := range r.final.Samples {
		s := &r.final.Samples[i]
		r.memory = max(r.memory, int(s.Memory))
		if s.Connects == 0 {
			began = s.At // the workers are being started
		}
		if len(rates) == 0 && s.Welcomed > r.connected { // the last may be welcomed in the second in which a phase begins
			r.connected, r.in = s.Welcomed, time.Duration(s.At-began)
		}
		if s.Phase != report.Ramp {
			rates = append(rates, s.Rate.Answered)
		}
	}
	r.beats = figures.Median(rates)
	if r.kills == nobody {
		r.divide()
	}
}

// divide divides the CPU time that was used after the ramp by the heartbeats of that time.
func (r *result) divide() {
	var first, last moment
	var before, sent uint64
	next := 0
	for i := range r.final.Samples {
		s := &r.final.Samples[i]
		for ; next < len(r.usage.moments) && r.usage.moments[next].at.Before(s.Time); next++ {
			if s.Phase == report.Ramp {
				continue
			}
			if last, sent = r.usage.moments[next], s.Sent; first.at.IsZero() {
				first, before = last, sent
			}
		}
	}
	if n := time.Duration(sent - before); n > 0 {
		r.each = moment{server: (last.server - first.server) / n, ears: (last.ears - first.ears) / n}
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
	table := func(columns ...figures.Column[*result]) string {
		return figures.Table("scenario", rows, results, columns...)
	}
	holder := "One `holter serve`, with SQLite and one device port"
	if b.ears > 0 {
		holder = fmt.Sprintf("One `holter serve --listen off`, with SQLite, another that stands by, and `holter ear`: %d, at one device port, linked over a Unix socket", b.ears)
	}
	announced := ""
	if b.mqtt() {
		announced = ", which is 1.5 keep alives"
	}
	return fmt.Sprintf("%s, each with %s every %v and a timeout of %v%s. %s. "+
		"A process may have %s files open here; where it has more connections, its event loops have tables of descriptors of "+
		"their own. All of it, server, generator and both ends of each connection, is on one machine, "+
		"and every scenario has a new server.\n\n%s\n"+
		"What the server said of the devices, beside what was done to them (`--verify`). The latency of a verdict is "+
		"that from its deadline to its arrival at the generator, through commit and event stream. A device that was back after its "+
		"deadline, but before a listening clock that was behind had reached it, needs no verdict (the last columns).\n\n%s\n"+
		"Memory at its most, without the kernel's but in the last column: that is how much less was available on the whole machine. "+
		"CPU is that of the whole run, without what was killed; for each heartbeat it is that after the ramp, divided by the heartbeats, which "+
		"in `steady` are all there is to do.\n\n%s%s",
		b.fleet(), b.beat(), b.interval, rs[0].final.Fleet.Timeout, announced, holder, figures.Grouped(openFiles()),
		table(fleetColumns()...), table(verdictColumns()...), table(b.usageColumns()...), missed(rs))
}

// fleet names the devices.
func (b *bench) fleet() string {
	text := figures.Grouped(b.connections) + " devices"
	switch b.protocol {
	case plan.MQTT:
		text += " that speak MQTT 3.1.1"
	case plan.MQTT5:
		text += " that speak MQTT 5"
	}
	return text
}

// beat names a heartbeat.
func (b *bench) beat() string {
	switch {
	case b.qos != pings:
		return fmt.Sprintf("a message of QoS %d", b.qos)
	case b.mqtt():
		return "a PINGREQ"
	}
	return "a heartbeat"
}

// openFiles returns how many files a process may have open.
func openFiles() int {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return int(limit.Cur)
}

// text returns a column of words.
func text(title string, of func(*result) string) figures.Column[*result] {
	return figures.Text(title, func(_ string, rs []*result) string { return of(rs[0]) })
}

func fleetColumns() []figures.Column[*result] {
	return []figures.Column[*result]{
		figures.Count("connected", func(r *result) int { return r.connected }),
		text("in", func(r *result) string { return figures.Duration(r.in) }),
		figures.Col("connects/s", 0, func(r *result) float64 { return float64(r.connected) / r.in.Seconds() }),
		figures.Col("answered heartbeats/s", 0, func(r *result) float64 { return r.beats }),
		text("RTT p50 / p99 / max", func(r *result) string { return latency(r.final.RTT.Latency) }),
		text("generator late, p99", func(r *result) string { return figures.Duration(time.Duration(r.final.Lateness.P99)) }),
		text("targets", func(r *result) string { return figures.Met(r.passed()) }),
	}
}

func verdictColumns() []figures.Column[*result] {
	const falsely, missing, others = "false offline", "missed offline", "other mistakes"
	verdicts := func(r *result) report.Verdicts {
		if r.final.Verdicts == nil {
			return report.Verdicts{}
		}
		return *r.final.Verdicts
	}
	column := func(m report.Mistake) string {
		switch {
		case strings.HasPrefix(m.Name, falsely):
			return falsely
		case strings.HasPrefix(m.Name, missing):
			return missing
		case m.Allowed >= 0:
			return others
		}
		return ""
	}
	columns := []figures.Column[*result]{
		figures.Count("right verdicts", func(r *result) int { return int(verdicts(r).Right) }),
	}
	for _, title := range []string{falsely, missing, others} {
		columns = append(columns, figures.Count(title, func(r *result) (n int) {
			for _, m := range verdicts(r).Mistakes {
				if column(m) == title {
					n += int(m.Count)
				}
			}
			return n
		}))
	}
	return append(columns,
		text("latency p50 / p99 / max", func(r *result) string { return latency(verdicts(r).Detection.Latency) }),
		text("clocks behind, at most", func(r *result) string { return figures.Duration(time.Duration(verdicts(r).Behind.Most)) }),
		figures.Count("back before them", func(r *result) int { return int(verdicts(r).Behind.Back) }),
	)
}

func (b *bench) usageColumns() []figures.Column[*result] {
	mega := func(title string, of func(*result) int) figures.Column[*result] {
		return figures.Col(title, 0, func(r *result) float64 { return float64(of(r)) / 1e6 })
	}
	each := func(title string, of func(*result) int) figures.Column[*result] {
		return figures.Col(title, 0, func(r *result) float64 { return float64(of(r)) / float64(b.connections) })
	}
	server := func(r *result) int { return r.usage.server }
	generator := func(r *result) int { return r.memory }
	of := func(title string, cpu func(u *usage) time.Duration) figures.Column[*result] {
		return text(title, func(r *result) string { return figures.Duration(cpu(&r.usage)) })
	}
	beat := func(of func(moment) time.Duration) figures.Column[*result] {
		return text("each heartbeat", func(r *result) string {
			if of(r.each) == 0 {
				return "–"
			}
			return fmt.Sprintf("%.1f µs", figures.Millis(of(r.each))*1000)
		})
	}
	columns := []figures.Column[*result]{
		mega("server, MB", server), each("B each connection", server), of("server's CPU", func(u *usage) time.Duration { return u.cpu }),
		beat(func(m moment) time.Duration { return m.server }),
	}
	if b.ears > 0 {
		ears := func(r *result) int { return r.usage.ears }
		columns = append(columns, mega("ears, MB", ears), each("B each connection", ears), of("ears' CPU", func(u *usage) time.Duration { return u.earsCPU }),
			beat(func(m moment) time.Duration { return m.ears }))
	}
	return append(columns,
		mega("generator, MB", generator), each("B each connection", generator),
		each("whole machine, B each connection", func(r *result) int { return r.usage.machine }),
		of("generator's", func(u *usage) time.Duration { return u.generator }),
		text("cores busy", func(r *result) string {
			return fmt.Sprintf("%.2f of %d", r.usage.busy.Seconds()/max(r.usage.elapsed.Seconds(), 0.001), runtime.NumCPU())
		}),
	)
}

func latency(l report.Latency) string {
	if l.Count == 0 {
		return "–"
	}
	of := func(d report.Millis) string { return figures.Duration(time.Duration(d)) }
	return of(l.P50) + " / " + of(l.P99) + " / " + of(l.Max)
}

// missed lists why scenarios did not pass.
func missed(results []*result) string {
	var w strings.Builder
	add := func(r *result, reason string) {
		if w.Len() == 0 {
			w.WriteString("\nWhat was missed:\n\n")
		}
		fmt.Fprintf(&w, "* %s: %s\n", r.name, strings.Join(strings.Fields(reason), " "))
	}
	for _, r := range results {
		if r.passed() {
			continue
		}
		for _, reason := range r.final.Outcome.Reasons {
			add(r, reason)
		}
		if r.failed != nil {
			first, _, _ := strings.Cut(r.failed.Error(), "\n")
			add(r, first)
		}
		for _, h := range r.final.Hits {
			add(r, h.Limit+": "+h.Evidence)
		}
	}
	return w.String()
}
