package timer_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/panjf2000/ants/v2"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/timer"
)

func TestConfigRejected(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  timer.Config
		want []string // parts of the error
	}{
		{"shards not a power of two", timer.Config{Shards: 3}, []string{"Shards is 3"}},
		{"too many shards", timer.Config{Shards: 2048}, []string{"Shards is 2048"}},
		{"negative", timer.Config{Shards: -1, MaxTimers: -2, Workers: -3, Queue: -4}, []string{"Shards is -1", "MaxTimers is -2", "Workers is -3", "Queue is -4"}},
		{"too many workers", timer.Config{Workers: math.MaxInt32 + 1}, []string{"Workers is 2147483648"}},
		{"precision negative", timer.Config{Precision: -1}, []string{"Precision is -1ns", "power of two"}},
		{"precision not a power of two", timer.Config{Precision: time.Microsecond}, []string{"Precision is 1µs", "power of two"}},
		{"precision too coarse", timer.Config{Precision: 2 * timer.Resolution}, []string{"Precision is 262.144µs", "131.072µs"}},
		{"precision of a memory", timer.Config{Precision: 1 << 10, Memory: new(fakeMemory)}, []string{"Precision is 1.024µs", "Memory"}},
		{"pool options", timer.Config{PoolOptions: []ants.Option{ants.WithExpiryDuration(-1)}}, []string{"expiry"}},
		{"unlimited preallocated", timer.Config{Workers: timer.Unlimited, PoolOptions: []ants.Option{ants.WithPreAlloc(true)}}, []string{"PreAlloc"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := timer.Start(tt.cfg)
			if err == nil || e != nil {
				t.Fatalf("Start = %v, %v, want an error", e, err)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestMaxTimers(t *testing.T) {
	for _, eager := range []bool{false, true} {
		t.Run(fmt.Sprintf("eager=%v", eager), func(t *testing.T) {
			const most = 100
			bubble(t, timer.Config{MaxTimers: most, Eager: eager, Shards: 4}, func(e *fixture) {
				t := e.t
				g := e.group(func([]timer.Expired) {})
				var ids []timer.ID
				for range most {
					ids = append(ids, e.armed(g.Arm(0, time.Hour, 0)))
				}
				full := func(when string) {
					t.Helper()
					if id, err := g.Arm(0, time.Second, 0); !errors.Is(err, timer.ErrFull) || id != 0 {
						t.Errorf("%s: Arm = %v, %v, want 0, ErrFull", when, id, err)
					}
				}
				full("at first")
				e.Cancel(ids[0])
				e.Cancel(ids[0])
				e.armed(g.Arm(0, time.Second, 0))
				full("after a cancellation")
				e.advance(time.Second + resolution)
				e.armed(e.AfterFunc(time.Second, func() {}))
				full("after an expiry")
				e.Cancel(ids[1])
				e.armed(g.Repeat(e.Now(), time.Second, timer.FixedRate, 0))
				e.advance(time.Second + resolution) // the one with the func ends, the repeating one stays
				e.armed(g.Arm(0, time.Hour, 0))
				full("beside a repeating timer")
				if st := e.Stats(); st.Rejected != 4 || st.Armed != most {
					t.Errorf("Rejected, Armed = %d, %d, want 4, %d", st.Rejected, st.Armed, most)
				}
			})
		})
	}
}

// Those that wait for a worker count.
func TestMaxTimersWhileDue(t *testing.T) {
	bubble(t, timer.Config{MaxTimers: 2}, func(e *fixture) {
		t := e.t
		release := make(chan struct{})
		e.armed(e.AfterFunc(0, func() { <-release }))
		e.advance(resolution)
		first := e.armed(e.AfterFunc(0, func() {}))
		e.armed(e.AfterFunc(0, func() {}))
		e.advance(resolution)
		if _, err := e.AfterFunc(0, func() {}); !errors.Is(err, timer.ErrFull) {
			t.Errorf("AfterFunc = %v, want ErrFull", err)
		}
		if !e.Cancel(first) {
			t.Error("Cancel = false")
		}
		e.armed(e.AfterFunc(0, func() {}))
		close(release)
		synctest.Wait()
		if n := e.Reserved(); n != 0 {
			t.Errorf("%d places are taken, want 0", n)
		}
	})
}

// An arming that is refused takes no room, not even for a moment, in which another would be refused
// for no reason.
func TestMaxTimersConcurrent(t *testing.T) {
	const most, goroutines, rounds = 3, 8, 2000
	e, err := timer.Start(timer.Config{MaxTimers: most, Shards: 2, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				id, err := e.AfterFunc(time.Hour, func() {})
				if n := e.Reserved(); n > most {
					t.Errorf("%d places are taken, want at most %d", n, most)
				}
				if err == nil && !e.Cancel(id) {
					t.Error("Cancel = false")
				}
			}
		})
	}
	wg.Wait()
	if n, reserved := e.Len(), e.Reserved(); n != 0 || reserved != 0 {
		t.Errorf("armed, reserved = %d, %d, want 0, 0", n, reserved)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The identifiers of millions of tenants of one slot are never confused, and when they are used up,
// the slot is retired.
func TestMillionsOfReuses(t *testing.T) {
	testenv.Check(t)
	const tenants = 1<<22 - 1
	e, err := timer.Start(timer.Config{MaxTimers: 1, Shards: 1, Workers: 1, Eager: true, Clock: new(timer.Manual)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := e.Group(func([]timer.Expired) {})
	if err != nil {
		t.Fatal(err)
	}
	var old [100]timer.ID
	for i := range tenants + 10 {
		id, err := g.Arm(0, time.Hour, 0)
		if err != nil {
			t.Fatal(err)
		}
		if stale := &old[i%len(old)]; id == *stale || e.Touch(*stale, time.Hour) || e.Cancel(*stale) {
			t.Fatalf("the timer of tenant %d lives on in tenant %d", i-len(old), i)
		}
		if i%1000 < len(old) {
			old[i%len(old)] = id
		}
		if !e.Cancel(id) {
			t.Fatalf("Cancel of tenant %d = false", i)
		}
	}
	if st := e.Stats(); st.Retired != 1 || st.Slots != 2 || st.Hints != 0 {
		t.Errorf("Retired, Slots, Hints = %d, %d, %d, want 1, 2, 0", st.Retired, st.Slots, st.Hints)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
