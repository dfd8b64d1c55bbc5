// Package rivals measures Holter's timer package and other timers of Go side by side, in interleaved
// rounds, so that other load on the machine affects all alike. results/rivals.md explains
// what it measures.
package rivals

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

// minTimers is how many timers it takes for all measurements to have some.
const minTimers = 100

// Command returns the benchmark.
func Command() run.Command {
	n, charts := 1_000_000, ""
	return run.Command{
		Name: "rivals", Help: "the timer package beside other timers of Go", Rounds: 10,
		Names: "MEASUREMENT/RIVAL, such as window/(Holter|time.AfterFunc);\nmeasurements are operations, growth, instant, window and slow",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&n, "n", n, "timers that are live")
			f.StringVar(&charts, "svg", "", "draw the charts into this `directory`")
		},
		Quick: func() { n = 2000 },
		Run: func(ctx context.Context, r *run.Run) error {
			if n < minTimers {
				return fmt.Errorf("-n is %d, want %d or more", n, minTimers)
			}
			b := newBench(r, n)
			stall, failed := cores.Witness(func() error { return b.measure(ctx) })
			if err := b.Publish(ctx, "Timers: results", "rivals", b.report(ctx, stall)); err != nil {
				return errors.Join(failed, err)
			}
			if charts != "" {
				failed = errors.Join(failed, b.draw(charts))
			}
			return failed
		},
		Child: child,
	}
}

// sizes say how much is measured.
type sizes struct {
	n      int // timers that are live, or due at one instant
	growth int // timers that get heartbeats heartbeats each
	spread int // timers due over window
	window time.Duration
	others int // timers due while a callback blocks for block
	block  time.Duration
}

func sizesFor(n int, quick bool) sizes {
	s := sizes{n: n, growth: n / 10, spread: n / 5, window: 5 * time.Second, others: min(n/10, 10_000), block: 2 * time.Second}
	if quick {
		s.window, s.block = 300*time.Millisecond, 200*time.Millisecond
	}
	return s
}

// bench measures rivals.
type bench struct {
	*run.Run
	sizes

	results map[string][]values // by rival, one for each round
}

func newBench(r *run.Run, n int) *bench {
	return &bench{Run: r, sizes: sizesFor(n, r.Quick), results: make(map[string][]values)}
}

// measurement is one thing to do with a rival, in a round.
type measurement struct {
	name string
	do   func(*job) (values, error)
}

func measurements() []measurement {
	return []measurement{
		{"operations", (*job).operations},
		{"growth", (*job).growing},
		{"instant", (*job).instant},
		{"window", (*job).overWindow},
		{"slow", (*job).slowCallback},
	}
}

// measure makes all rounds, whatever fails.
func (b *bench) measure(ctx context.Context) error {
	var errs []error
	for round := range b.Rounds {
		interrupted := run.Turns(round, contenders(), func(c contender) error {
			start, all := time.Now(), values{}
			for _, m := range measurements() {
				if !b.Wanted(m.name, c.name) || c.name == baselineName && m.name != "operations" {
					continue
				}
				got, err := b.call(ctx, m, c)
				if err != nil {
					errs = append(errs, fmt.Errorf("%s of %s, round %d: %w", m.name, c.name, round+1, err))
				}
				maps.Copy(all, got)
			}
			b.results[c.name] = append(b.results[c.name], all)
			b.Progress("round %d/%d  %-46s %5.1f s", round+1, b.Rounds, c.name, time.Since(start).Seconds())
			return ctx.Err()
		})
		if interrupted != nil {
			return errors.Join(append(errs, interrupted)...)
		}
	}
	return errors.Join(errs...)
}

// call measures a rival in a process of its own, so that neither its memory nor its goroutines remain.
func (b *bench) call(ctx context.Context, m measurement, c contender) (got values, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	err = measured.Call(ctx, measured.Anywhere, &got, b.Name(), m.name, c.name, fmt.Sprint(b.n, b.Quick))
	return got, err
}

// job is one measurement of one rival.
type job struct {
	contender
	sizes

	periods []time.Duration // of the timers at all places, 30 to 90 s
	random  *rand.Rand      // the same in each process
}

// child prepares a job in the process that call starts.
func child(_ context.Context, args []string) (s measured.Subject, err error) {
	if len(args) != 3 {
		return s, errors.New("want a measurement, a rival, and numbers")
	}
	j := &job{random: rand.New(rand.NewPCG(1, 2))}
	var n int
	var quick bool
	if _, err := fmt.Sscan(args[2], &n, &quick); err != nil {
		return s, err
	}
	j.sizes = sizesFor(n, quick)
	for range n {
		j.periods = append(j.periods, 30*time.Second+time.Duration(j.random.Int64N(int64(60*time.Second))))
	}
	m := slices.IndexFunc(measurements(), func(m measurement) bool { return m.name == args[0] })
	c := slices.IndexFunc(contenders(), func(c contender) bool { return c.name == args[1] })
	if m < 0 || c < 0 {
		return s, fmt.Errorf("no measurement %s", strings.Join(args, "/"))
	}
	j.contender = contenders()[c]
	s.Answer = func(string) (any, error) { return measurements()[m].do(j) }
	return s, nil
}

// metric is one thing that is measured. What precedes the underscore is common to figures of one kind.
type metric string

// values are the figures of one rival in one round.
type values map[metric]float64

// median returns the median of a rival's figures, NaN if there are none.
func (b *bench) median(m metric, rival string) float64 {
	return figures.Median(figures.Each(b.results[rival], m.of))
}

// of returns a figure, NaN if it was not measured.
func (m metric) of(v values) float64 {
	if x, ok := v[m]; ok {
		return x
	}
	return math.NaN()
}
