//go:build unix

package timer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/timer"
)

// cpuTime returns the processor time that the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// lateness collects how long after their deadlines timers were handled.
type lateness struct {
	mu   sync.Mutex // guards the fields below
	late []time.Duration
	left int
	done chan struct{} // closed when none is left
}

func newLateness(n int) *lateness {
	return &lateness{late: make([]time.Duration, 0, n), left: n, done: make(chan struct{})}
}

func (l *lateness) add(now time.Duration, expired []timer.Expired) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range expired {
		l.late = append(l.late, now-x.Deadline)
	}
	if l.left -= len(expired); l.left == 0 {
		close(l.done)
	}
}

func (l *lateness) report(b *testing.B) {
	b.Helper()
	slices.Sort(l.late)
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99, "p100": 1} {
		b.ReportMetric(float64(l.late[int(q*float64(len(l.late)-1))].Microseconds()), name+"-µs")
	}
	b.ReportMetric(float64(l.late[0].Microseconds()), "earliest-µs")
}

// 200,000 timers are due over five seconds.
func BenchmarkDueOverFiveSeconds(b *testing.B) {
	for _, shards := range []int{1, 8} {
		b.Run(fmt.Sprintf("n=2e5/shards=%d", shards), func(b *testing.B) {
			const n = 200_000
			var cpu time.Duration
			all := newLateness(n)
			for b.Loop() {
				var e *benchmark
				l := newLateness(n)
				e = startBench(b, timer.Config{Shards: shards}, func(expired []timer.Expired) { l.add(e.Now(), expired) })
				start := e.Now() + 500*time.Millisecond
				for i := range uint64(n) {
					if _, err := e.g.ArmAt(start+rand.N(5*time.Second), time.Second, i); err != nil {
						b.Fatal(err)
					}
				}
				before := cpuTime(b)
				<-l.done
				cpu += cpuTime(b) - before
				all = l
				e.close(b)
			}
			all.report(b)
			b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s")
		})
	}
}

// A callback of two seconds occupies the only worker: how late are others found due, and how long
// do calls take meanwhile?
func BenchmarkSlowCallback(b *testing.B) {
	const n = 20_000
	for b.Loop() {
		e := startBench(b, timer.Config{Workers: 1}, ignore)
		busy := make(chan struct{})
		if _, err := e.AfterFunc(0, func() {
			close(busy)
			<-time.After(2 * time.Second)
		}); err != nil {
			b.Fatal(err)
		}
		<-busy
		for i := range uint64(n) {
			if _, err := e.g.Arm(e.Now(), rand.N(2*time.Second), i); err != nil {
				b.Fatal(err)
			}
		}
		var slowest [3]time.Duration
		for until := e.Now() + 1900*time.Millisecond; e.Now() < until; {
			start := e.Now()
			id, err := e.g.Arm(start, time.Hour, 0)
			if err != nil {
				b.Fatal(err)
			}
			armed := e.Now()
			e.Touch(id, armed)
			touched := e.Now()
			e.Cancel(id)
			slowest[0] = max(slowest[0], armed-start)
			slowest[1] = max(slowest[1], touched-armed)
			slowest[2] = max(slowest[2], e.Now()-touched)
		}
		st := e.Stats()
		for i, name := range []string{"arm", "touch", "cancel"} {
			b.ReportMetric(float64(slowest[i].Microseconds()), "slowest-"+name+"-µs")
		}
		b.ReportMetric(float64(st.Lateness.Quantile(0.99).Microseconds()), "found-p99-µs")
		b.ReportMetric(float64(st.Queued), "queued")
		e.close(b)
	}
}

// An engine that nobody uses, with a million timers that are far from due.
func BenchmarkIdle(b *testing.B) {
	e := startBench(b, timer.Config{}, ignore)
	e.fill(b, million)
	before := cpuTime(b)
	start := time.Now()
	for b.Loop() {
		<-time.After(2 * time.Second)
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/time.Since(start).Seconds(), "cpu-µs/s")
	b.StopTimer()
	e.close(b)
}
