package timer_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/timer"
)

// However many timers are armed and cancelled long before they are due, few of them stay in memory.
func TestCancelledAreSwept(t *testing.T) {
	for _, armed := range []int{0, 1000} {
		for _, function := range []bool{false, true} {
			t.Run(fmt.Sprintf("armed=%d/func=%v", armed, function), func(t *testing.T) {
				bubble(t, timer.Config{}, func(e *fixture) {
					t := e.t
					const churn, window = 20_000, 100
					g := e.group(func([]timer.Expired) {})
					arm := func() timer.ID {
						if function {
							return e.armed(e.AfterFunc(time.Hour, func() {}))
						}
						return e.armed(g.Arm(0, time.Hour, 0))
					}
					for range armed {
						arm()
					}
					var ids [window]timer.ID
					for i := range churn {
						if i >= window && !e.Cancel(ids[i%window]) {
							t.Fatal("Cancel = false")
						}
						ids[i%window] = arm()
						st := e.Stats()
						if want := armed + min(i+1, window); st.Armed != want || e.Len() != want {
							t.Fatalf("Armed, Len = %d, %d, want %d", st.Armed, e.Len(), want)
						}
						if most := 2*(armed+window) + timer.SweepMin + 1; st.Hints > most || st.Slots > most {
							t.Fatalf("Hints, Slots = %d, %d after %d armings, want at most %d", st.Hints, st.Slots, i, most)
						}
					}
				})
			})
		}
	}
}

// contest is a timer that is cancelled, touched, reset, moved, bound and due, all at once.
type contest struct {
	id        timer.ID
	fired     atomic.Int32
	cancelled atomic.Int32
	lost      atomic.Bool // fired after it had been cancelled
}

func (c *contest) fire() {
	if c.cancelled.Load() > 0 {
		c.lost.Store(true)
	}
	c.fired.Add(1)
}

// Cancel agrees with all that can happen to a timer meanwhile: it ends once, either way, and nothing
// of it is left.
func TestCancelAgainstAll(t *testing.T) {
	for _, cfg := range []timer.Config{{Shards: 1}, {Shards: 2, Eager: true}, {Shards: 1, Memory: new(fakeMemory)}, {Shards: 1, Workers: timer.Unlimited}} {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprintf("eager=%v/memory=%v/workers=%d/closed=%v", cfg.Eager, cfg.Memory != nil, cfg.Workers, closed), func(t *testing.T) {
				const timers = 2000
				cfg.MaxTimers = timers
				if cfg.Memory != nil {
					cfg.Memory = new(fakeMemory)
				}
				e, err := timer.Start(cfg)
				if err != nil {
					t.Fatal(err)
				}
				all := make([]contest, timers)
				g, err := e.Group(func(expired []timer.Expired) {
					for _, x := range expired {
						all[x.Data].fire()
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				for i := range all {
					if i%2 == 0 {
						all[i].id, err = g.Arm(e.Now(), time.Minute, uint64(i))
					} else {
						all[i].id, err = e.AfterFunc(time.Minute, all[i].fire)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				var wg sync.WaitGroup
				each := func(f func(c *contest)) {
					wg.Go(func() {
						for i := range all {
							f(&all[i])
							if i%16 == 0 {
								runtime.Gosched()
							}
						}
					})
				}
				each(func(c *contest) { e.TouchTo(c.id, 0) }) // due at once
				each(func(c *contest) { e.Touch(c.id, e.Now()) })
				each(func(c *contest) { e.Reset(c.id, e.Now(), 0) })
				each(func(c *contest) { e.Bind(ctx, c.id) })
				each(func(c *contest) { e.BindChan(done, c.id) })
				for range 2 {
					each(func(c *contest) {
						if e.Cancel(c.id) {
							c.cancelled.Add(1)
						}
					})
				}
				if closed {
					wg.Go(func() {
						if err := e.Close(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				for !closed && (e.Len() > 0 || e.Channels() > 0) {
					runtime.Gosched() // those that are due wait for a worker
				}
				if reserved := e.Reserved(); !closed && reserved != 0 {
					t.Errorf("%d places are taken, want 0", reserved)
				}
				if err := e.Close(t.Context()); err != nil {
					t.Error(err)
				}
				cancel()
				for i := range all {
					c := &all[i]
					if n := c.fired.Load() + c.cancelled.Load(); n > 1 || n == 0 && !closed || c.lost.Load() {
						t.Errorf("timer %d fired %d times and was cancelled %d times", i, c.fired.Load(), c.cancelled.Load())
					}
				}
				if n := e.Channels(); n != 0 {
					t.Errorf("timers are bound to %d channels, want none", n)
				}
			})
		}
	}
}
