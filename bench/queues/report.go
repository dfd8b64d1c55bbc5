package queues

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// section is a table of the report.
type section struct {
	measurement, title, text string
	columns                  []figures.Column[result]
}

func sections() []section {
	perSecond := func(title string) figures.Column[result] {
		return figures.Col(title, 0, func(r result) float64 { return float64(r.Jobs) / r.Elapsed.Seconds() })
	}
	cpu := []figures.Column[result]{
		each("µs of CPU per job, of the program", func(r result) time.Duration { return r.CPU }),
		each("of the whole machine", func(r result) time.Duration { return r.Busy }),
	}
	times := latencies()
	return []section{{
		"enqueue", "Jobs are enqueued one by one", fmt.Sprintf("%d callers, each with its next job once the one before is stored. Nobody works.", callers),
		append([]figures.Column[result]{perSecond("jobs/s")}, cpu...),
	}, {
		"bulk", "Jobs are enqueued in bulk", fmt.Sprintf("%d callers, %s jobs in a call. Nobody works.", bulkCallers, figures.Grouped(bulkSize)),
		append([]figures.Column[result]{perSecond("jobs/s")}, cpu...),
	}, {
		"work", "Jobs that do nothing are worked",
		"50,000 jobs are there, 5,000 for `river`, whose rate does not depend on it; from the start of the workers until all jobs are done in the database.",
		append([]figures.Column[result]{perSecond("jobs/s")}, cpu...),
	}, {
		"latency-200", "200 jobs a second: from the instant at which a job is due to be enqueued until it is begun",
		"In the process that works them, however long each call takes: a call that is late counts from when it was due.",
		slices.Concat(times, cpu),
	}, {
		"latency-1000", "The same with 1,000 jobs a second", "Where the whole machine takes 2,000 µs for a job, its two cores are the limit.",
		slices.Concat(times, cpu),
	}, {
		"backlog", "A backlog",
		"One measurement. The size is what the database grew by; it is worked while the other jobs wait.",
		[]figures.Column[result]{
			figures.Time("enqueued in, s", 1, time.Second, func(r result) time.Duration { return r.Filled }),
			figures.Col("MB", 0, func(r result) float64 { return float64(r.Size) / 1e6 }),
			perSecond("worked, jobs/s"), cpu[0], cpu[1],
		},
	}}
}

func latencies() []figures.Column[result] {
	millis := func(title string, of func(result) time.Duration) figures.Column[result] {
		return figures.Time(title, 1, time.Millisecond, of)
	}
	return []figures.Column[result]{
		millis("p50, ms", func(r result) time.Duration { return r.P50 }), millis("p99", func(r result) time.Duration { return r.P99 }),
		millis("most", func(r result) time.Duration { return r.Max }),
		millis("stored, p99", func(r result) time.Duration { return r.Stored }),
		millis("called late, p99", func(r result) time.Duration { return r.Sent }),
	}
}

// each returns a column of microseconds for each job.
func each(title string, of func(result) time.Duration) figures.Column[result] {
	return figures.Col(title, 0, func(r result) float64 { return float64(of(r).Microseconds()) / float64(r.Jobs) })
}

// report returns all tables.
func (b *bench) report() string {
	var w strings.Builder
	fmt.Fprintf(&w, "Both on one PostgreSQL server on this machine, each measurement with a database and a process of its own; %d rounds in turns. "+
		"River has up to %d connections, Holter 9. Figures are medians, least and most in parentheses. Each job was stored once, and begun once where jobs are worked. "+
		"The longest stalls of the machine meanwhile: %s ms.\n\n", b.Rounds, b.conns, figures.Spread(figures.Fixed(1), b.stalls))
	w.WriteString("| | jobs worked at once | |\n|---|---:|---|\n")
	var names []string
	for _, s := range subjects(b.workers, b.conns) {
		names = append(names, s.name)
		fmt.Fprintf(&w, "| %s | %s | %s |\n", s.name, figures.Grouped(s.workers), s.text)
	}
	for _, s := range sections() {
		if table := figures.Table("", names, b.results[s.measurement], s.columns...); table != "" {
			fmt.Fprintf(&w, "\n### %s\n\n%s\n\n%s", s.title, s.text, table)
		}
	}
	return w.String()
}
