package timer_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/timer"
)

// What the tests of Go's package time (src/time/sleep_test.go and tick_test.go of github.com/golang/go) ask of timers, told anew.

// Timers set in disorder expire at their instants, several of one instant together, whatever shards they are in.
func TestGoAfterQueuing(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			bubble(t, timer.Config{Shards: shards, Workers: 3}, func(e *fixture) {
				t := e.t
				var r recorder
				g := e.group(r.handle)
				slots := []uint64{5, 3, 6, 6, 6, 1, 1, 2, 7, 9, 4, 8, 0}
				for _, slot := range slots {
					e.armed(g.Arm(0, times(int(slot), 20*time.Millisecond), slot))
				}
				slices.Sort(slots)
				for slot := range uint64(10) {
					var want []uint64
					for len(slots) > 0 && slots[0] == slot {
						want, slots = append(want, slot), slots[1:]
					}
					e.set(ceil(times(int(slot), 20*time.Millisecond)))
					r.want(t, fmt.Sprintf("at instant %d", slot), want...)
				}
			})
		})
	}
}

// A func that sets itself anew and then takes a second: beside others it is called again at once, by one worker after that second.
func TestGoAfterFunc(t *testing.T) {
	for workers, want := range map[int]time.Duration{1: 10 * time.Second, timer.Unlimited: 0} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			systemBubble(t, timer.Config{Workers: workers}, func(e *fixture) {
				t := e.t
				left := 10
				last := make(chan time.Duration, 1)
				var f func()
				f = func() {
					if left--; left < 0 {
						last <- e.Now()
						return
					}
					if _, err := e.AfterFunc(0, f); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Second)
				}
				if _, err := e.AfterFunc(0, f); err != nil {
					t.Fatal(err)
				}
				if got := (<-last).Truncate(time.Second); got != want {
					t.Errorf("the last call was after %v, want %v", got, want)
				}
			})
		})
	}
}

// Timers that are cancelled by many goroutines half-way never expire, and hold up none of those between them.
func TestGoStopStress(t *testing.T) {
	systemBubble(t, timer.Config{Workers: 2}, func(e *fixture) {
		t := e.t
		var called atomic.Int32
		for range 100 {
			go func() {
				id, err := e.AfterFunc(2*time.Second, func() { t.Error("a cancelled timer expired") })
				if err != nil {
					t.Error(err)
				}
				if _, err := e.AfterFunc(2*time.Second, func() { called.Add(1) }); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				if !e.Cancel(id) {
					t.Error("Cancel = false, want true")
				}
				if e.Cancel(id) {
					t.Error("second Cancel = true, want false")
				}
			}()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := called.Load(); n != 100 {
			t.Errorf("%d of the other timers expired, want 100", n)
		}
	})
}

// A repeating timer expires as often as its period fits, and after a new period as often as that does; then it can be cancelled.
func TestGoTicker(t *testing.T) {
	for _, tt := range []struct {
		count         int
		period, later time.Duration
	}{
		{10, 100 * time.Millisecond, 200 * time.Millisecond},
		{10, 200 * time.Millisecond, 100 * time.Millisecond},
		{3, time.Hour, time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%v to %v", tt.period, tt.later), func(t *testing.T) {
			systemBubble(t, timer.Config{Precision: 1 << 10}, func(e *fixture) {
				t := e.t
				calls := make(chan time.Duration)
				id, err := e.RepeatFunc(tt.period, timer.FixedRate, func() { calls <- e.Now() })
				if err != nil {
					t.Fatal(err)
				}
				start := e.Now()
				for _, period := range []time.Duration{tt.period, tt.later} {
					for i := range tt.count {
						want := start + times(i+1, period)
						if got := <-calls; got < want || got >= want+time.Millisecond {
							t.Errorf("call %d with a period of %v at %v, want %v", i+1, period, got, want)
						}
					}
					start = e.Now()
					if period == tt.period && !e.Reset(id, start, tt.later) {
						t.Error("Reset = false")
					}
				}
				if !e.Cancel(id) {
					t.Error("Cancel = false")
				}
				time.Sleep(tt.period + tt.later)
				select {
				case at := <-calls:
					t.Errorf("called at %v though it was cancelled", at)
				default:
				}
			})
		})
	}
}

// A timer gets its turn although goroutines that always have something to do share one processor with it (go.dev/issue/65178).
func TestGoStarvation(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e, err := timer.Start(timer.Config{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var busy sync.WaitGroup
	c := make(chan struct{}, 1)
	busy.Go(func() {
		for !stop.Load() {
			c <- struct{}{}
		}
		close(c)
	})
	busy.Go(func() {
		for range c {
		}
	})
	if _, err := e.AfterFunc(time.Microsecond, func() { stop.Store(true) }); err != nil {
		t.Error(err)
		stop.Store(true)
	}
	busy.Wait()
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
