package timer_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/timer"
)

// What the tests of github.com/kawasin73/htask (scheduler_test.go and minheap_test.go) ask, told anew.

// systemBubble runs f in a bubble, with an engine of one shard on the system's clock.
func systemBubble(t *testing.T, cfg timer.Config, f func(e *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Shards = 1
		e, err := timer.Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		f(&fixture{Engine: e, t: t})
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// One worker calls tasks in the order of their instants, though these are a nanosecond apart, among them two that a task has set.
// A task whose channel was closed before is not called.
func TestHtaskOrder(t *testing.T) {
	for name, set := range map[string]func(e *timer.Engine, at time.Time, f func()) (timer.ID, error){
		"AtTime": (*timer.Engine).AtTime,
		"AtFunc": func(e *timer.Engine, at time.Time, f func()) (timer.ID, error) {
			return e.AtFunc(e.Now()+time.Until(at), f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			systemBubble(t, timer.Config{Workers: 1, Precision: 1}, func(e *fixture) {
				t := e.t
				start := time.Now().Add(100 * time.Millisecond)
				var mu sync.Mutex // guards got
				var got []int
				note := func(at int) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, at)
				}
				never, cancelled := make(chan struct{}), make(chan struct{})
				close(cancelled)
				task := func(at int, done chan struct{}, more ...int) {
					add := func(at int, f func()) {
						id, err := set(e.Engine, start.Add(time.Duration(at)), f)
						if err != nil || !e.BindChan(done, id) {
							t.Errorf("task at %d: %v", at, err)
						}
					}
					add(at, func() {
						note(at)
						for _, next := range more {
							add(next, func() { note(next) })
						}
					})
				}
				for _, at := range []int{0, 3, 2, 5, 1, 1} {
					task(at, never)
				}
				task(4, cancelled)
				task(2, never, 7, 6)
				time.Sleep(99 * time.Millisecond)
				synctest.Wait()
				mu.Lock()
				if len(got) != 0 {
					t.Errorf("%v were called too early", got)
				}
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				if want := []int{0, 1, 1, 2, 2, 3, 5, 6, 7}; !slices.Equal(got, want) {
					t.Errorf("tasks were called in the order %v, want %v", got, want)
				}
			})
		})
	}
}

// A task that is refused because the heap is full leaves no trace in it, even if it would have been the first.
func TestHtaskLimitedHeap(t *testing.T) {
	for _, most := range []int{0, 5} {
		for _, eager := range []bool{false, true} {
			t.Run(fmt.Sprintf("most=%d/eager=%v", most, eager), func(t *testing.T) {
				bubble(t, timer.Config{MaxTimers: most, Eager: eager}, func(e *fixture) {
					t := e.t
					var r recorder
					g := e.group(r.handle)
					for _, at := range []uint64{5, 4, 6, 3, 4} {
						e.armed(g.ArmAt(times(int(at), time.Second), 0, at))
					}
					if most > 0 {
						if _, err := g.ArmAt(time.Second, 0, 1); !errors.Is(err, timer.ErrFull) {
							t.Errorf("ArmAt = %v, want ErrFull", err)
						}
					}
					for at, want := range [][]uint64{3: {3}, 4: {4, 4}, 5: {5}, 6: {6}, 9: nil} {
						e.set(ceil(times(at, time.Second)))
						r.want(t, fmt.Sprintf("after %d s", at), want...)
					}
					if at, ok := e.clock.Next(); ok || e.Len() != 0 {
						t.Errorf("%d timers are left, and the clock waits until %v", e.Len(), at)
					}
				})
			})
		}
	}
}

// Tasks set by many goroutines at a time are called once each, by one worker in the order of their instants.
func TestHtaskConcurrentSet(t *testing.T) {
	for _, workers := range []int{1, 3, timer.Unlimited} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			systemBubble(t, timer.Config{Workers: workers}, func(e *fixture) {
				t := e.t
				const goroutines, each = 8, 200
				var mu sync.Mutex
				var got []int
				var set sync.WaitGroup
				for n := range goroutines {
					set.Go(func() {
						for i := range each {
							i = (i*37%each)*goroutines + n // each number once, in disorder
							_, err := e.AtFunc(time.Second+times(i, resolution), func() {
								mu.Lock()
								defer mu.Unlock()
								got = append(got, i)
							})
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
				set.Wait()
				time.Sleep(time.Minute)
				synctest.Wait()
				if workers == 1 && !slices.IsSorted(got) {
					t.Errorf("tasks were called in the order %v", got)
				}
				slices.Sort(got)
				if len(got) != goroutines*each || len(slices.Compact(got)) != goroutines*each {
					t.Errorf("%d tasks were called, want %d, each once", len(got), goroutines*each)
				}
			})
		})
	}
}

// The same tasks are called with one worker, with three, and without a limit, and the number may be changed by a task.
func TestHtaskChangeWorkers(t *testing.T) {
	systemBubble(t, timer.Config{Workers: 1}, func(e *fixture) {
		t := e.t
		var mu sync.Mutex
		var took []time.Duration
		for _, next := range []int{3, timer.Unlimited, 1} {
			start := e.Now()
			took = took[:0]
			for range 4 {
				if _, err := e.AfterFunc(50*time.Millisecond, func() {
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					took = append(took, (e.Now() - start).Truncate(time.Second))
				}); err != nil {
					t.Fatal(err)
				}
			}
			workers := e.Stats().Workers
			if _, err := e.AfterFunc(time.Minute, func() {
				if err := e.Resize(next); err != nil {
					t.Errorf("Resize(%d) = %v", next, err)
				}
			}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			want := map[int]string{1: "[1s 2s 3s 4s]", 3: "[1s 1s 1s 2s]", timer.Unlimited: "[1s 1s 1s 1s]"}[workers]
			if got := fmt.Sprint(took); got != want {
				t.Errorf("with %d workers tasks ended after %v, want %v", workers, got, want)
			}
		}
	})
}
