package delivery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
)

// usage is what something took.
type usage struct {
	Elapsed  time.Duration
	CPU      time.Duration // of the process that is measured
	Endpoint time.Duration // CPU of the endpoint
	Before   int           // bytes in RAM before, after a collection of garbage
	Growth   int           // how many more it had at most
}

// add calls do and adds what it took. Only the first time begins with a collection of garbage.
func (u *usage) add(r *rig, do func() error) (err error) {
	if u.Before == 0 {
		if u.Before, err = measured.Settle(); err != nil {
			return err
		}
	}
	used, err := measured.During(do, r.endpoint.PID)
	if err != nil {
		return err
	}
	peak, err := measured.Peak()
	u.Elapsed, u.Endpoint, u.Growth = u.Elapsed+used.Elapsed, u.Endpoint+used.CPU, peak-u.Before
	u.CPU += time.Duration(used.Driver * float64(used.Elapsed)) // the meter takes this process for the driver
	return err
}

// section is a table of the measurements whose names begin alike.
type section struct {
	prefix, title, text string
	columns             []figures.Column[result]
	target              string
	met                 func(result) bool // in most rounds of each row; nil without a target
}

func sections() []section {
	of := func(r result) usage { return r.usage }
	return []section{{
		"silence", "500,000 devices fall silent at one instant, and each verdict becomes a job",
		"From the instant at which all are due to the last commit of events and jobs; the memory in RAM before, after a " +
			"collection of garbage, and how much more it was at most until then. Webhooks of 100 events go out meanwhile.",
		[]figures.Column[result]{
			seconds("committed, s", func(r result) time.Duration { return r.Elapsed }),
			seconds("delivered, s", func(r result) time.Duration { return r.Delivered }),
			seconds("CPU, s", func(r result) time.Duration { return r.CPU }),
			figures.Col("before, MB", 0, func(r result) float64 { return float64(r.Before) / 1e6 }),
			figures.Col("growth, MB", 0, func(r result) float64 { return float64(r.Growth) / 1e6 }),
		},
		"all committed within 10 s, growth at most 300 MB",
		func(r result) bool { return r.Elapsed <= 10*time.Second && r.Growth <= 300e6 },
	}, {
		"webhooks/", "Webhooks to an endpoint on this machine",
		"Signed CloudEvents of 100,000 stored events, one or 100 in a request, to a server of package net/http that answers " +
			"200 at once; 32 deliveries at a time. The bare client POSTs such events one by one, as many at a time, and has no queue.",
		[]figures.Column[result]{
			rate("events/s", of), each("µs of CPU per event", of),
			each("µs of the endpoint's CPU", func(r result) usage { return usage{CPU: r.Endpoint} }),
		},
		"at least 5000 webhooks per second, one by one",
		func(r result) bool { return float64(r.Events)/r.Elapsed.Seconds() >= 5000 },
	}, {
		"latency", "From the commit of an event to its arrival",
		"1000 events, one every 20 ms.",
		[]figures.Column[result]{
			millis("p50, ms", func(r result) time.Duration { return r.P50 }),
			millis("p99, ms", func(r result) time.Duration { return r.P99 }),
			millis("most, ms", func(r result) time.Duration { return r.Max }),
		},
		"", nil,
	}}
}

func seconds(title string, of func(result) time.Duration) figures.Column[result] {
	return figures.Time(title, 2, time.Second, of)
}

func millis(title string, of func(result) time.Duration) figures.Column[result] {
	return figures.Time(title, 1, time.Millisecond, of)
}

// each returns a column of microseconds of CPU for each event.
func each(title string, of func(result) usage) figures.Column[result] {
	return figures.Col(title, 1, func(r result) float64 { return float64(of(r).CPU.Microseconds()) / float64(r.Events) })
}

// rate returns a column of events per second.
func rate(title string, of func(result) usage) figures.Column[result] {
	return figures.Col(title, 0, func(r result) float64 { return float64(r.Events) / of(r).Elapsed.Seconds() })
}

// report returns all tables.
func (b *bench) report() string {
	var w strings.Builder
	fmt.Fprintf(&w, "Each measurement in a process of its own that may use all cores, SQLite with every commit on the disk; "+
		"%d rounds. Figures are medians, least and most in parentheses. The longest stalls of the machine meanwhile: %s ms.\n",
		b.Rounds, figures.Spread(figures.Fixed(1), b.stalls))
	for _, s := range sections() {
		var rows []string
		met := true
		for _, m := range measurements() {
			if strings.HasPrefix(m.name, s.prefix) {
				rows = append(rows, m.name)
				met = met && (s.met == nil || mostly(s.met, b.results[m.name]))
			}
		}
		table := figures.Table("", rows, b.results, s.columns...)
		if table == "" {
			continue
		}
		fmt.Fprintf(&w, "\n### %s\n\n%s\n\n%s", s.title, s.text, table)
		if s.met != nil {
			fmt.Fprintf(&w, "\nTarget, in most rounds: %s: %s.\n", s.target, figures.Met(met))
		}
	}
	return w.String()
}

// mostly reports whether the target is met in at least half of the rounds.
func mostly(met func(result) bool, rounds []result) bool {
	return 2*len(slices.DeleteFunc(slices.Clone(rounds), func(r result) bool { return !met(r) })) >= len(rounds)
}
