package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// sizes say how much is measured.
type sizes struct {
	n        int // timers that are live, or due at one instant
	growth   int // timers that get heartbeats heartbeats each
	spread   int // timers due over window
	window   time.Duration
	others   int // timers due while a callback blocks for block
	block    time.Duration
	adders   int           // goroutines that arm while the rival is closed
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
		adders:   9600,
		patience: 20 * time.Second,
	}
	if short {
		s.window, s.block, s.adders = 300*time.Millisecond, 200*time.Millisecond, 960
	}
	return s
}

// bench measures rivals.
type bench struct {
	sizes

	progress io.Writer
	results  *results
	periods  []time.Duration // of the timers, 30 to 90 s
	random   *rand.Rand
}

func newBench(s sizes, rounds int, progress io.Writer) *bench {
	b := &bench{
		sizes:    s,
		progress: progress,
		results:  newResults(rounds),
		periods:  make([]time.Duration, s.n),
		random:   rand.New(rand.NewPCG(1, 2)),
	}
	for i := range b.periods {
		b.periods[i] = 30*time.Second + time.Duration(b.random.Int64N(int64(60*time.Second)))
	}
	return b
}

// measurement is one thing to do with a rival, in a round.
type measurement struct {
	name  string
	round func(b *bench, round int, c contender) error
}

func measurements() []measurement {
	return []measurement{
		{"operations", (*bench).operations},
		{"growth", (*bench).growing},
		{"instant", (*bench).instant},
		{"window", (*bench).overWindow},
		{"slow", (*bench).slowCallback},
		{"closing", (*bench).closing},
	}
}

// run does all rounds, whatever fails. The order of the rivals is moved on by one in each round.
func (b *bench) run(cs []contender, ms []measurement) error {
	var errs []error
	for round := range b.results.rounds {
		b.baseline(round)
		for k := range cs {
			c := cs[(k+round)%len(cs)]
			start := time.Now()
			for _, m := range ms {
				if err := m.round(b, round, c); err != nil {
					errs = append(errs, fmt.Errorf("%s of %s, round %d: %w", m.name, c.name, round+1, err))
				}
				settle()
			}
			_, _ = fmt.Fprintf(b.progress, "round %d/%d  %-46s %5.1f s\n", round+1, b.results.rounds, c.name, time.Since(start).Seconds())
		}
	}
	return errors.Join(errs...)
}

// settle gives the memory of what was measured back to the system.
func settle() { debug.FreeOSMemory() }

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

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
