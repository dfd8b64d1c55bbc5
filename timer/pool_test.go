package timer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/panjf2000/ants/v2"

	"github.com/holter-iot/holter/timer"
)

// A callback that takes its time holds up the only worker, but no expiry and no caller.
func TestClockNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := timer.Start(timer.Config{Workers: 1, Shards: 2, Queue: 8})
		if err != nil {
			t.Fatal(err)
		}
		const n = 1000
		var r recorder
		g, err := e.Group(r.handle)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.AfterFunc(0, func() { time.Sleep(2 * time.Second) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(resolution)
		synctest.Wait() // until the worker is busy
		for i := range n {
			if _, err := g.Arm(e.Now(), time.Duration(i)*time.Millisecond, 0); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(n * time.Millisecond)
		synctest.Wait()
		st := e.Stats()
		if late := st.Lateness.Quantile(1); late > time.Microsecond {
			t.Errorf("an expiry was found %v late", late)
		}
		if st.Fired != 1 || st.Armed != n || st.Hints != 0 || st.Queued < 8 || st.Spilled == 0 {
			t.Errorf("Fired, Armed, Hints, Queued, Spilled = %d, %d, %d, %d, %d", st.Fired, st.Armed, st.Hints, st.Queued, st.Spilled)
		}
		before := e.Now()
		id, err := g.Arm(before, time.Hour, 0)
		if err != nil || !e.Touch(id, before) || !e.TouchTo(id, time.Minute) || !e.Reset(id, before, time.Hour) || !e.Cancel(id) {
			t.Error("the timer is not armed:", err)
		}
		if e.Now() != before {
			t.Errorf("the calls took %v", e.Now()-before)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := len(r.take()); got != n {
			t.Errorf("%d expired, want %d", got, n)
		}
	})
}

// The ready queue counts what it holds beyond its length, and holds no more than there are timers.
func TestSpill(t *testing.T) {
	bubble(t, timer.Config{Queue: 4}, func(e *fixture) {
		t := e.t
		const n = 10
		release := make(chan struct{})
		var r recorder
		e.armed(e.group(func([]timer.Expired) { <-release }).Arm(0, 0, 0)) // a func may be offered to two workers
		e.advance(resolution)
		g := e.group(r.handle)
		for i := range uint64(n) {
			e.armed(g.Repeat(0, time.Duration(i+1)*time.Second, timer.FixedRate, i))
		}
		e.set(n*time.Second + resolution)
		if st := e.Stats(); st.Queued != 0 || st.Spilled != 0 { // one batch, which feeds the worker
			t.Errorf("Queued, Spilled = %d, %d, want 0, 0", st.Queued, st.Spilled)
		}
		for i := range n {
			e.armed(g.Arm(e.Now(), time.Duration(i+1)*time.Second, 100))
			e.advance(time.Duration(i+1)*time.Second + resolution)
		}
		if st := e.Stats(); st.Queued != n || st.Spilled != n-4 {
			t.Errorf("Queued, Spilled = %d, %d, want %d, %d", st.Queued, st.Spilled, n, n-4)
		}
		for range 1000 {
			e.advance(time.Minute)
		}
		if st := e.Stats(); st.Queued != n {
			t.Errorf("Queued = %d, want %d still", st.Queued, n)
		}
		close(release)
		synctest.Wait()
		if got := len(r.take()); got != 2*n { // the repeating ones once each, for all the instants that had passed
			t.Errorf("%d expired, want %d", got, 2*n)
		}
		if st := e.Stats(); st.Queued != 0 {
			t.Errorf("Queued = %d, want 0", st.Queued)
		}
	})
}

// Funcs that are due together run in the order of their deadlines where there is one worker. With more,
// one that blocks, or ends its goroutine, holds up none of the others while a worker is free.
func TestFuncsDueTogether(t *testing.T) {
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			bubble(t, timer.Config{Workers: workers}, func(e *fixture) {
				t := e.t
				const n = 100
				release := make(chan struct{})
				var mu sync.Mutex
				var ran []int
				blocked := workers - 1
				for i := range n {
					e.armed(e.AtFunc(time.Second+times(i, timer.Resolution), func() {
						if i%50 == 10 && i/50 < blocked {
							<-release
						}
						mu.Lock()
						defer mu.Unlock()
						ran = append(ran, i)
						if i == 70 {
							runtime.Goexit()
						}
					}))
				}
				e.set(2 * time.Second)
				if len(ran) != n-blocked || workers == 1 && !slices.IsSorted(ran) {
					t.Errorf("%v have run, want all but %d, in order with one worker", ran, blocked)
				}
				close(release)
				synctest.Wait()
				if len(ran) != n {
					t.Errorf("%d have run, want %d", len(ran), n)
				}
			})
		})
	}
}

// Timers that are cancelled while they wait for a worker leave the ready queue too.
func TestReadyQueueIsBounded(t *testing.T) {
	for _, eager := range []bool{false, true} {
		t.Run(fmt.Sprintf("eager=%v", eager), func(t *testing.T) {
			bubble(t, timer.Config{Eager: eager, Shards: 2}, func(e *fixture) {
				t := e.t
				release := make(chan struct{})
				var r recorder
				e.armed(e.AfterFunc(0, func() { <-release }))
				e.advance(resolution)
				g := e.group(r.handle)
				kept := 0
				most := 0
				for i := range uint64(8 * timer.ReadySweepMin) {
					id := e.armed(g.Arm(0, 0, i))
					synctest.Wait() // it is due
					if i%1000 == 0 {
						kept++
					} else if !e.Cancel(id) {
						t.Fatal("Cancel = false")
					}
					most = max(most, e.Stats().Queued)
				}
				if bound := 2 * (timer.ReadySweepMin + timer.SweepMin + kept + 1); most > bound {
					t.Errorf("the queue grew to %d batches for %d armed timers, want at most %d", most, kept, bound)
				}
				close(release)
				synctest.Wait()
				got := dataOf(r.take())
				if len(got) != kept || slices.ContainsFunc(got, func(d uint64) bool { return d%1000 != 0 }) {
					t.Errorf("expired %v, want %d of them, multiples of 1000", got, kept)
				}
			})
		})
	}
}

func TestPoolRefuses(t *testing.T) {
	bubble(t, timer.Config{Workers: 2, PoolOptions: []ants.Option{ants.WithNonblocking(true)}}, func(e *fixture) {
		t := e.t
		var runs atomic.Int32
		for range 10 {
			e.armed(e.AfterFunc(0, func() {
				runs.Add(1)
				time.Sleep(10 * time.Millisecond)
			}))
		}
		e.advance(resolution)
		time.Sleep(time.Second)
		if st := e.Stats(); runs.Load() != 10 || st.Fired != 10 || st.Refused == 0 {
			t.Errorf("runs, Fired, Refused = %d, %d, %d, want 10, 10 and more than 0", runs.Load(), st.Fired, st.Refused)
		}
	})
}

func TestPoolOptions(t *testing.T) {
	handled := false
	options := map[string][]ants.Option{
		"panic handler": {ants.WithPanicHandler(func(any) { handled = true })},
		"preallocated":  {ants.WithPreAlloc(true)},
		"no purge":      {ants.WithDisablePurge(true)},
		"expiry":        {ants.WithExpiryDuration(time.Millisecond)},
		"blocking":      {ants.WithMaxBlockingTasks(1)},
	}
	for name, options := range options {
		t.Run(name, func(t *testing.T) {
			bubble(t, timer.Config{Workers: 2, PoolOptions: options}, func(e *fixture) {
				t := e.t
				var runs atomic.Int32
				for range 10 {
					e.armed(e.AfterFunc(0, func() {
						runs.Add(1)
						time.Sleep(time.Second)
						panic("a callback's")
					}))
				}
				e.advance(resolution)
				time.Sleep(time.Minute)
				if st := e.Stats(); runs.Load() != 10 || st.Panics != 10 {
					t.Errorf("runs, Panics = %d, %d, want 10, 10", runs.Load(), st.Panics)
				}
			})
		})
	}
	if handled {
		t.Error("the pool's panic handler saw a callback's panic")
	}
}

func TestPanics(t *testing.T) {
	var mu sync.Mutex
	var reported []any
	onPanic := func(v any) {
		mu.Lock()
		defer mu.Unlock()
		reported = append(reported, v)
	}
	bubble(t, timer.Config{OnPanic: onPanic}, func(e *fixture) {
		t := e.t
		var r recorder
		g := e.group(func(expired []timer.Expired) {
			r.handle(expired[:1])
			panic(fmt.Sprint("handler of ", len(expired)))
		})
		e.armed(e.AfterFunc(time.Second, func() { panic("func") }))
		e.armed(g.Arm(0, 2*time.Second, 1))
		e.armed(g.Arm(0, 2*time.Second, 2))
		e.armed(g.Arm(0, 3*time.Second, 3))
		for range 3 {
			e.advance(time.Second + resolution)
		}
		r.want(t, "until the panics", 1, 3)
		if got, want := fmt.Sprint(reported), "[func handler of 2 handler of 1]"; got != want {
			t.Errorf("OnPanic was told %s, want %s", got, want)
		}
		if st := e.Stats(); st.Panics != 3 || st.Fired != 4 || st.Armed != 0 {
			t.Errorf("Panics, Fired, Armed = %d, %d, %d, want 3, 4, 0", st.Panics, st.Fired, st.Armed)
		}
	})
}

func TestNilCallbacks(t *testing.T) {
	bubble(t, timer.Config{MaxTimers: 1}, func(e *fixture) {
		t := e.t
		for name, call := range map[string]func() error{
			"AfterFunc": func() error { _, err := e.AfterFunc(0, nil); return err },
			"AtFunc":    func() error { _, err := e.AtFunc(0, nil); return err },
			"RepeatFunc": func() error {
				_, err := e.RepeatFunc(time.Second, timer.FixedDelay, nil)
				return err
			},
			"Group": func() error { _, err := e.Group(nil); return err },
		} {
			if err := call(); !errors.Is(err, timer.ErrNil) || !strings.Contains(err.Error(), name+" got a nil") {
				t.Errorf("%s(nil) = %v, want ErrNil of %s", name, err, name)
			}
		}
		if n := e.Reserved(); n != 0 {
			t.Errorf("%d places are taken, want 0", n)
		}
		e.advance(time.Minute)
		if st := e.Stats(); st.Panics != 0 || st.Fired != 0 || st.Armed != 0 {
			t.Errorf("Panics, Fired, Armed = %d, %d, %d, want 0", st.Panics, st.Fired, st.Armed)
		}
		e.armed(e.AfterFunc(0, func() {}))
	})
}

// running counts callbacks that wait to be let go.
type running struct {
	now, most atomic.Int32
	release   chan struct{}
}

func (r *running) call() {
	n := r.now.Add(1)
	m := r.most.Load()
	for n > m && !r.most.CompareAndSwap(m, n) {
		m = r.most.Load()
	}
	<-r.release
	r.now.Add(-1)
}

func TestWorkers(t *testing.T) {
	for _, tt := range []struct {
		workers int
		want    int32
	}{{1, 1}, {3, 3}, {timer.Unlimited, 500}} {
		t.Run(strconv.Itoa(tt.workers), func(t *testing.T) {
			bubble(t, timer.Config{Workers: tt.workers}, func(e *fixture) {
				t := e.t
				r := running{release: make(chan struct{})}
				for range 500 {
					e.armed(e.AfterFunc(0, r.call))
				}
				e.advance(resolution)
				if n := r.now.Load(); n != tt.want {
					t.Errorf("%d callbacks run, want %d", n, tt.want)
				}
				close(r.release)
				synctest.Wait()
				if st := e.Stats(); st.Fired != 500 || r.most.Load() != tt.want {
					t.Errorf("Fired, most at a time = %d, %d, want 500, %d", st.Fired, r.most.Load(), tt.want)
				}
			})
		})
	}
}

func TestResize(t *testing.T) {
	bubble(t, timer.Config{Workers: 2}, func(e *fixture) {
		t := e.t
		r := running{release: make(chan struct{})}
		for range 100 {
			e.armed(e.AfterFunc(0, r.call))
		}
		e.advance(resolution)
		want := func(workers int, when string) {
			t.Helper()
			synctest.Wait()
			if n := r.now.Load(); n != int32(workers) {
				t.Errorf("%s: %d callbacks run, want %d", when, n, workers)
			}
		}
		want(2, "at first")
		resize := func(workers int) {
			t.Helper()
			if err := e.Resize(workers); err != nil {
				t.Error(err)
			}
			if got := e.Stats().Workers; got != workers {
				t.Errorf("Stats.Workers = %d, want %d", got, workers)
			}
		}
		resize(7)
		want(7, "more workers")
		resize(3)
		want(7, "before a callback has returned")
		for range 10 {
			r.release <- struct{}{}
		}
		want(3, "fewer workers")
		for _, workers := range []int{-3, math.MaxInt32 + 1, math.MinInt} {
			if err := e.Resize(workers); err == nil || !strings.Contains(err.Error(), strconv.Itoa(workers)) {
				t.Errorf("Resize(%d) = %v, want an error that says so", workers, err)
			}
			want(3, "a size that is none")
		}
		resize(math.MaxInt32)
		want(90, "as many as there are")
		close(r.release)
		synctest.Wait()
		if st := e.Stats(); st.Fired != 100 {
			t.Errorf("Fired = %d, want 100", st.Fired)
		}
	})
}

// Workers that are idle when there may be fewer of them stay idle.
func TestShrinkIdle(t *testing.T) {
	bubble(t, timer.Config{Workers: 40}, func(e *fixture) {
		t := e.t
		for _, step := range []struct{ workers, want int32 }{{40, 40}, {2, 2}, {1, 1}, {39, 39}, {3, 3}} {
			if err := e.Resize(int(step.workers)); err != nil {
				t.Fatal(err)
			}
			r := running{release: make(chan struct{})}
			for range 100 {
				e.armed(e.AfterFunc(0, r.call))
			}
			e.advance(resolution)
			close(r.release)
			synctest.Wait()
			if n := r.most.Load(); n != step.want {
				t.Errorf("with %d workers %d callbacks ran at a time, want %d", step.workers, n, step.want)
			}
		}
	})
}

// From a number to Unlimited and back, also with workers that were preallocated.
func TestResizeUnlimited(t *testing.T) {
	for name, cfg := range map[string]timer.Config{
		"from 3":            {Workers: 3},
		"from Unlimited":    {Workers: timer.Unlimited},
		"from preallocated": {Workers: 3, PoolOptions: []ants.Option{ants.WithPreAlloc(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, cfg, func(e *fixture) {
				t := e.t
				if got := e.Stats().Workers; got != cfg.Workers {
					t.Errorf("Stats.Workers = %d, want %d", got, cfg.Workers)
				}
				for _, step := range []struct{ resize, workers, want int }{
					{2, 2, 2}, {0, timer.Unlimited, 50}, {1, 1, 1}, {timer.Unlimited, timer.Unlimited, 50}, {7, 7, 7},
				} {
					if err := e.Resize(step.resize); err != nil {
						t.Fatal(err)
					}
					if got := e.Stats().Workers; got != step.workers {
						t.Errorf("after Resize(%d) Stats.Workers = %d, want %d", step.resize, got, step.workers)
					}
					r := running{release: make(chan struct{})}
					for range 50 {
						e.armed(e.AfterFunc(0, r.call))
					}
					e.advance(resolution)
					close(r.release)
					synctest.Wait()
					if n := r.most.Load(); n != int32(step.want) {
						t.Errorf("after Resize(%d) %d callbacks ran at a time, want %d", step.resize, n, step.want)
					}
				}
			})
		})
	}
}

// One worker, with all else at its default, calls funcs, and the handler of a group, in the order of the deadlines.
func TestOneWorkerInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := new(timer.Manual)
		e, err := timer.Start(timer.Config{Clock: clock, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		var funcs, handled recorder
		g, err := e.Group(handled.handle)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(3, 4))
		var want []uint64
		for _, i := range random.Perm(1000) {
			at := time.Duration(i) * time.Millisecond
			want = append(want, uint64(len(want)))
			if _, err := e.AtFunc(at, func() { funcs.handle([]timer.Expired{{Data: uint64(i)}}) }); err != nil {
				t.Fatal(err)
			}
			if _, err := g.ArmAt(at, time.Hour, uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 { // some hundred at a time
			clock.Advance(250*time.Millisecond + resolution)
			synctest.Wait()
		}
		funcs.want(t, "funcs", want...)
		handled.want(t, "the group", want...)
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Those that wait for a worker start at once when there is no bound any longer; those that run
// count when there is one again.
func TestResizeWhileBusy(t *testing.T) {
	bubble(t, timer.Config{Workers: 1}, func(e *fixture) {
		t := e.t
		r := running{release: make(chan struct{})}
		arm := func(n int) {
			for range n {
				e.armed(e.AfterFunc(0, r.call))
			}
			e.advance(resolution)
		}
		want := func(n int32, when string) {
			t.Helper()
			synctest.Wait()
			if got := r.now.Load(); got != n {
				t.Errorf("%s: %d callbacks run, want %d", when, got, n)
			}
		}
		resize := func(workers int) {
			t.Helper()
			if err := e.Resize(workers); err != nil {
				t.Error(err)
			}
		}
		arm(600)
		want(1, "with one worker")
		resize(timer.Unlimited)
		want(600, "without a bound")
		resize(599)
		arm(10)
		want(600, "with a bound again")
		r.release <- struct{}{}
		want(599, "when one has ended")
		r.release <- struct{}{}
		want(599, "when two have ended") // one of the ten has begun
		close(r.release)
		want(0, "at the end")
		if st := e.Stats(); st.Fired != 610 {
			t.Errorf("Fired = %d, want 610", st.Fired)
		}
	})
}

// Funcs that repeat go on one by one, whatever the others of their batch do.
func TestUnlimitedRepeating(t *testing.T) {
	bubble(t, timer.Config{Workers: timer.Unlimited}, func(e *fixture) {
		t := e.t
		var runs [6]atomic.Int32
		release := make(chan struct{})
		for i := range runs {
			f := func() {
				runs[i].Add(1)
				switch i % 3 {
				case 1:
					<-release
				case 2:
					panic("a callback's")
				}
			}
			if i < 3 {
				e.armed(e.RepeatFunc(time.Second, timer.FixedDelay, f))
			} else {
				e.armed(e.AfterFunc(time.Second, f))
			}
		}
		want := func(when string, want ...int32) {
			t.Helper()
			for i := range runs {
				if n := runs[i].Load(); n != want[i] {
					t.Errorf("%s: func %d ran %d times, want %d", when, i, n, want[i])
				}
			}
		}
		e.advance(time.Second + resolution)
		want("at first", 1, 1, 1, 1, 1, 1)
		e.advance(time.Second + resolution)
		want("while one waits", 2, 1, 2, 1, 1, 1)
		close(release)
		synctest.Wait()
		e.advance(time.Second + resolution)
		want("when it has returned", 3, 2, 3, 1, 1, 1)
		if st := e.Stats(); st.Armed != 3 || st.Panics != 4 {
			t.Errorf("Armed, Panics = %d, %d, want 3, 4", st.Armed, st.Panics)
		}
	})
}
