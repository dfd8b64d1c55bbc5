// Package rivals measures Holter's timer package and other timers of Go side by side: in one process, in interleaved rounds, so that
// whatever else the machine does affects all alike. docs/numbers/benchmarks.md explains what it measures.
package rivals

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

// minTimers is how many timers it takes for all measurements to have some.
const minTimers = 100

// Command returns the benchmark.
func Command() run.Command {
	n, charts := 1_000_000, ""
	var names []string
	for _, m := range measurements() {
		names = append(names, m.name)
	}
	return run.Command{
		Name: "rivals", Help: "the timer package beside other timers of Go", Rounds: 10,
		Names: fmt.Sprintf("MEASUREMENT/RIVAL, such as window/time.AfterFunc;\nHolter is always measured beside (%q)", names),
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&n, "n", n, "timers that are live")
			f.StringVar(&charts, "svg", "", "draw the charts into this `directory`")
		},
		Quick: func() { n = 2000 },
		Run: func(ctx context.Context, r *run.Run) error {
			if n < minTimers {
				return fmt.Errorf("-n is %d, want %d or more", n, minTimers)
			}
			b := newBench(r, sizesFor(n, r.Quick))
			stalls := watchStall()
			failed := b.measure(ctx)
			b.stall = stalls.end()
			if err := b.Publish(ctx, "Timers: results", "rivals", b.report(ctx)); err != nil {
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
	n        int // timers that are live, or due at one instant
	growth   int // timers that get heartbeats heartbeats each
	spread   int // timers due over window
	window   time.Duration
	others   int // timers due while a callback blocks for block
	block    time.Duration
	patience time.Duration // how long the last callback of a measurement may take
}

// heartbeats is how many each timer gets when growth is measured.
const heartbeats = 20

// growthRounds is in how many rounds growth is measured, which is slow and hardly varies.
const growthRounds = 2

func sizesFor(n int, short bool) sizes {
	s := sizes{
		n:        n,
		growth:   max(n/10, 1),
		spread:   max(n/5, 1),
		window:   5 * time.Second,
		others:   min(max(n/10, 1), 10_000),
		block:    2 * time.Second,
		patience: 20 * time.Second,
	}
	if short {
		s.window, s.block = 300*time.Millisecond, 200*time.Millisecond
	}
	return s
}

// bench measures rivals.
type bench struct {
	*run.Run
	sizes

	results map[string][]values // by rival, one for each round
	periods []time.Duration     // of the timers, 30 to 90 s
	random  *rand.Rand
	stall   time.Duration // see stall
}

func newBench(r *run.Run, s sizes) *bench {
	b := &bench{
		Run: r, sizes: s, results: make(map[string][]values), periods: make([]time.Duration, s.n), random: rand.New(rand.NewPCG(1, 2)),
	}
	for i := range b.periods {
		b.periods[i] = 30*time.Second + time.Duration(b.random.Int64N(int64(60*time.Second)))
	}
	return b
}

// measurement is one thing to do with a rival, in a round.
type measurement struct {
	name  string
	round func(b *bench, ctx context.Context, round int, c contender) error
}

func measurements() []measurement {
	return []measurement{
		{"operations", (*bench).operations},
		{"growth", (*bench).growing},
		{"instant", (*bench).instant},
		{"window", (*bench).overWindow},
		{"slow", (*bench).slowCallback},
	}
}

// wanted reports whether a measurement of a rival is wanted. Holter is measured if any rival is.
func (b *bench) wanted(m measurement, c contender) bool {
	if c.name != holterName {
		return b.Wanted(m.name, c.name)
	}
	return slices.ContainsFunc(contenders(), func(c contender) bool { return b.Wanted(m.name, c.name) })
}

// measure makes all rounds, whatever fails.
func (b *bench) measure(ctx context.Context) error {
	var errs []error
	for round := range b.Rounds {
		b.baseline(round)
		_ = run.Turns(round, contenders(), func(c contender) error {
			start := time.Now()
			for _, m := range measurements() {
				if !b.wanted(m, c) || ctx.Err() != nil {
					continue
				}
				if err := m.round(b, ctx, round, c); err != nil {
					errs = append(errs, fmt.Errorf("%s of %s, round %d: %w", m.name, c.name, round+1, err))
				}
				freeMemory()
			}
			b.Progress("round %d/%d  %-46s %5.1f s", round+1, b.Rounds, c.name, time.Since(start).Seconds())
			return nil
		})
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// freeMemory returns the memory of what was measured to the system.
func freeMemory() { debug.FreeOSMemory() }

// liveBytes returns the bytes of live objects, after two collections.
func liveBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// cpuTime returns the CPU time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it takes no other arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
