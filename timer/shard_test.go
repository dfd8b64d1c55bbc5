package timer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

// still is an engine of one shard whose goroutines have not been started: the test does their work,
// in the order it likes.
type still struct {
	*Engine

	clock *Manual
	t     *testing.T
}

func newStill(t *testing.T, cfg Config) *still {
	t.Helper()
	clock := new(Manual)
	cfg.Clock, cfg.Shards, cfg.Workers = clock, 1, 1
	e, err := newEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.pool.Release)
	return &still{Engine: e, clock: clock, t: t}
}

func (s *still) group(h Handler) *Group {
	s.t.Helper()
	g, err := s.Group(h)
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

// due moves the clock and returns the batches that come due, and how often the shard was locked for
// it.
func (s *still) due(at time.Duration) (batches []*batch, holds int) {
	s.clock.Set(at)
	for more := true; more; holds++ {
		var some []*batch
		_, more = s.shards[0].expireSome(&some)
		more = more || len(some) > 0 // like expire
		batches = append(batches, some...)
	}
	return batches, holds
}

// run does what a worker does with a batch.
func (s *still) run(b *batch) {
	s.gate.join(1)
	s.Engine.run(task{b, b.entries})
}

// The slot of a cancelled timer is not given to another one before the batch that holds its entry
// has been looked at.
func TestBatchOfFormerTenant(t *testing.T) {
	for _, eager := range []bool{false, true} {
		t.Run(fmt.Sprintf("eager=%v", eager), func(t *testing.T) {
			s := newStill(t, Config{Eager: eager})
			var got []uint64
			g := s.group(func(expired []Expired) {
				for _, x := range expired {
					got = append(got, x.Data)
				}
			})
			arm := func(data uint64) ID {
				id, err := g.Arm(0, time.Second, data)
				if err != nil {
					t.Fatal(err)
				}
				return id
			}
			first := arm(1)
			stale, _ := s.due(2 * time.Second)
			s.Cancel(first)
			if second := arm(2); second.ref() == first.ref() {
				t.Errorf("the slot of %v is given to %v while a batch holds its entry", first, second)
			}
			s.run(stale[0])
			if third := arm(3); third.ref() != first.ref() {
				t.Errorf("the slot of %v is not given to %v", first, third)
			}
			batches, _ := s.due(3 * time.Second)
			s.run(batches[0])
			if !slices.Equal(got, []uint64{2, 3}) && !slices.Equal(got, []uint64{3, 2}) {
				t.Errorf("expired %v, want 2 and 3", got)
			}
			if st := s.Stats(); st.Armed != 0 || st.Hints != 0 || s.shards[0].inBatch != 0 || s.shards[0].entries != 0 {
				t.Errorf("Armed, Hints = %d, %d, want 0, 0; in batches %d, entries %d", st.Armed, st.Hints, s.shards[0].inBatch, s.shards[0].entries)
			}
		})
	}
}

// A shard whose slots are all taken makes room by sweeping.
func TestCancelledMakeRoom(t *testing.T) {
	s := newStill(t, Config{})
	g := s.group(func([]Expired) {})
	small := dualmap.New(2, false, nil)
	g.maps[0] = small
	s.shards[0].slabs[g.index].Store(small)
	first, _ := g.Arm(0, time.Hour, 0)
	if _, err := g.Arm(0, time.Hour, 0); err != nil {
		t.Fatal(err)
	}
	s.Cancel(first)
	if _, err := g.Arm(0, time.Hour, 0); err != nil {
		t.Errorf("Arm = %v, though a timer was cancelled", err)
	}
	if _, err := g.Arm(0, time.Hour, 0); !errors.Is(err, ErrFull) {
		t.Errorf("Arm = %v, want ErrFull", err)
	}
}

// At a full shard, each cancelled timer makes room for one, without a sweep for each.
func TestFullShardIsSweptOnce(t *testing.T) {
	const slots = 1000
	s := newStill(t, Config{})
	g := s.group(func([]Expired) {})
	small := dualmap.New(slots, false, nil)
	g.maps[0] = small
	s.shards[0].slabs[g.index].Store(small)
	var ids []ID
	for len(ids) <= slots {
		id, err := g.Arm(0, time.Hour, 0)
		if err != nil {
			break
		}
		ids = append(ids, id)
	}
	if len(ids) != slots {
		t.Fatalf("%d timers were armed, want %d", len(ids), slots)
	}
	for i := range 10 * slots {
		k := i % slots
		if !s.Cancel(ids[k]) {
			t.Fatal("Cancel = false")
		}
		var err error
		if ids[k], err = g.Arm(0, time.Hour, 0); err != nil {
			t.Fatalf("Arm = %v after %d cancelled timers", err, i+1)
		}
	}
	if st := s.Stats(); st.Armed != slots || st.Hints > 3*slots || st.Sweeps > 50 {
		t.Errorf("Armed, Hints, Sweeps = %d, %d, %d, want %d, fewer than three times as many, and few", st.Armed, st.Hints, st.Sweeps, slots)
	}
	batches, _ := s.due(2 * time.Hour)
	for ; len(batches) > 0; batches, _ = s.due(2 * time.Hour) {
		for _, b := range batches {
			s.run(b)
		}
	}
	if st := s.Stats(); st.Armed != 0 || st.Hints != 0 || small.Len() != 0 || s.shards[0].isFull.Load() {
		t.Errorf("Armed, Hints, slots = %d, %d, %d, want 0, and a shard that is not full", st.Armed, st.Hints, small.Len())
	}
}

// A value that a channel receives cancels those that are bound to it, though a goroutine for others takes it
// which are bound no longer.
func TestValueIsNotSwallowed(t *testing.T) {
	var c channels
	done := make(chan struct{})
	cancel := func(ID) bool { return true }
	end := c.tie(done, 1, cancel)
	first := c.open[done]
	end()
	second := c.tie(done, 2, cancel)
	for id := range c.takeTimers(done, first) {
		if *id != 2 {
			t.Errorf("took timer %d, want 2", *id)
		}
		cancel(*id)
	}
	if len(c.open) != 0 || second() {
		t.Error("the second timer is still bound")
	}
	c.close()
}

// Deadlines that had passed when they were set keep their order too.
func TestOverdueOrder(t *testing.T) {
	s := newStill(t, Config{})
	var got []uint64
	g := s.group(func(expired []Expired) {
		for _, x := range expired {
			got = append(got, x.Data)
		}
	})
	s.due(1000 * time.Hour) // no hints: the base comes along
	for _, hours := range []uint64{999, 970, 990, 980, 1000} {
		if _, err := g.ArmAt(time.Duration(hours)*time.Hour, 0, hours); err != nil {
			t.Fatal(err)
		}
	}
	batches, _ := s.due(1001 * time.Hour)
	for _, b := range batches {
		s.run(b)
	}
	if want := []uint64{970, 980, 990, 999, 1000}; !slices.Equal(got, want) {
		t.Errorf("expired %v, want %v", got, want)
	}
}

// However many hints of touched or cancelled timers come up at an instant, the lock is held for
// some of them at a time.
func TestLocksAreShort(t *testing.T) {
	const n = 10 * lookLen
	for name, change := range map[string]func(s *still, id ID) bool{
		"touched":   func(s *still, id ID) bool { return s.Touch(id, time.Second) },
		"cancelled": func(s *still, id ID) bool { return s.Cancel(id) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStill(t, Config{})
			g := s.group(func([]Expired) {})
			var ids []ID
			for range 3 * n {
				id, err := g.Arm(0, time.Second, 0)
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			for _, id := range ids[:n] {
				change(s, id)
			}
			batches, holds := s.due(time.Second + Resolution)
			total := 0
			for _, b := range batches {
				total += len(b.entries)
				if len(b.entries) > batchLen {
					t.Errorf("a batch of %d", len(b.entries))
				}
			}
			if least := n/lookLen + 2*n/batchLen - 1; total != 2*n || holds < least {
				t.Errorf("%d timers in %d holds of the lock, want %d in %d at least", total, holds, 2*n, least)
			}
		})
	}
}

// A touch that comes while the hint is looked at, queued or about to be claimed is never lost, and
// never ignored.
func TestTouchAtEachStep(t *testing.T) {
	const second = time.Second
	for step := range 3 {
		t.Run(fmt.Sprint("step ", step), func(t *testing.T) {
			s := newStill(t, Config{})
			fired := 0
			g := s.group(func([]Expired) { fired++ })
			id, _ := g.Arm(0, second, 0)
			touch := func(at int, now time.Duration) {
				if at == step && !s.Touch(id, now) {
					t.Error("Touch = false")
				}
			}
			touch(0, second)
			batches, _ := s.due(second + Resolution)
			touch(1, second)
			for _, b := range batches {
				s.run(b)
			}
			if step < 2 && fired != 0 {
				t.Error("the timer expired at a deadline that was moved")
			}
			if step == 2 {
				if fired != 1 || s.Touch(id, second) {
					t.Errorf("fired %d times, want once; or it is armed still", fired)
				}
				return
			}
			batches, _ = s.due(2*second + 2*Resolution)
			for _, b := range batches {
				s.run(b)
			}
			if fired != 1 {
				t.Errorf("fired %d times, want once", fired)
			}
		})
	}
}

// The shard is woken for a deadline that is earlier than the one it sleeps until, and for no other.
func TestWake(t *testing.T) {
	s := newStill(t, Config{})
	g := s.group(func([]Expired) {})
	woken := func() bool {
		select {
		case <-s.shards[0].wake:
			return true
		default:
			return false
		}
	}
	arm := func(at time.Duration) ID {
		id, err := g.ArmAt(at, time.Minute, 0)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	sleep := func() { s.due(0) }

	arm(time.Minute)
	if woken() {
		t.Error("woken while it does not sleep")
	}
	sleep()
	if arm(time.Hour); woken() {
		t.Error("woken for a later deadline")
	}
	id := arm(time.Second)
	if !woken() {
		t.Error("not woken for an earlier deadline")
	}
	sleep()
	if s.Touch(id, time.Minute); woken() {
		t.Error("woken for a touch")
	}
	if s.TouchTo(id, time.Millisecond); !woken() {
		t.Error("not woken for an earlier touch")
	}
	sleep()
	if s.Reset(id, 0, Resolution); !woken() {
		t.Error("not woken for an earlier reset")
	}
	sleep()
	s.Cancel(id)
	s.due(2 * time.Hour)
	if arm(100 * 24 * time.Hour); !woken() {
		t.Error("not woken from a sleep without end")
	}
}

// Of the hints of one timer that look alive, a sweep leaves one that is looked at in time.
func TestSweepKeepsOneInTime(t *testing.T) {
	const unit, others = Resolution << 15, 80
	for touches := others; touches < 300; touches++ {
		s := newStill(t, Config{})
		g := s.group(func([]Expired) {})
		arm := func(units int) ID {
			id, err := g.ArmAt(time.Duration(units)*unit, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		for i := range others { // so that the hints do not lie in order
			arm(i*37%others*4 + 1)
		}
		id := arm(400)
		for i := range touches {
			s.TouchTo(id, time.Duration(399-i*7%300)*unit)
		}
		last, _ := s.Deadline(id)
		batches, _ := s.due(last)
		if !slices.ContainsFunc(batches, func(b *batch) bool { return slices.Contains(b.entries, id.original()) }) {
			t.Errorf("%d touches: the timer is not due at its deadline", touches)
		}
	}
}
