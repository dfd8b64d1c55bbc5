package timer_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/timer"
)

// life is one arming, and what became of it.
type life struct {
	id      timer.ID
	cell    *cell
	touches atomic.Int32 // how often it may still be acted on, so that it can expire

	ended     atomic.Bool // set when its callback has started or Cancel has returned true
	fired     atomic.Int32
	cancelled atomic.Int32
	firedAt   atomic.Int64 // the deadline
	promised  atomic.Int64 // what the deadline is at least; exactly, in a cell that is moved
}

// cell holds one timer after the other. Many touch and cancel it; or one moves its deadline and the
// others cancel it.
type cell struct {
	current atomic.Pointer[life]
	moved   bool
}

type stress struct {
	t      *testing.T
	e      *timer.Engine
	g      *timer.Group
	cells  []*cell
	lives  []life
	next   atomic.Int64
	living sync.WaitGroup // the lives
}

const stressPeriod = 2 * time.Millisecond

// arm begins the next life of a cell, if there are more. By the time that it returns, the life may
// be over.
func (s *stress) arm(c *cell) {
	i := s.next.Add(1) - 1
	if i >= int64(len(s.lives)) {
		return
	}
	l := &s.lives[i]
	l.cell = c
	l.touches.Store(rand.Int32N(6))
	at := s.e.Now() + rand.N(stressPeriod)
	l.promised.Store(int64(ceil(at)))
	id, err := s.g.ArmAt(at, stressPeriod, uint64(i))
	if err != nil {
		s.t.Error(err)
	}
	l.id = id
	c.current.Store(l)
}

func (s *stress) handle(expired []timer.Expired) {
	now := s.e.Now()
	for _, x := range expired {
		if now < x.Deadline {
			s.t.Errorf("timer %d: callback at %v, before its deadline %v", x.Data, now, x.Deadline)
		}
		l := &s.lives[x.Data]
		l.ended.Store(true)
		l.fired.Add(1)
		l.firedAt.Store(int64(x.Deadline))
		s.arm(l.cell)
		s.living.Done()
	}
}

// act does one thing to a life when its deadline is near or past, and checks that an ended one is
// left alone.
func (s *stress) act(l *life, mover bool) {
	ended := l.ended.Load()
	if s.e.Now() < time.Duration(l.promised.Load())-resolution || !ended && l.touches.Add(-1) < 0 {
		return
	}
	done := false
	switch {
	case rand.IntN(8) == 0:
		if done = s.e.Cancel(l.id); done {
			l.ended.Store(true)
			l.cancelled.Add(1)
			s.arm(l.cell)
			s.living.Done()
		}
	case !l.cell.moved:
		now := s.e.Now() - rand.N(stressPeriod)
		if done = s.e.Touch(l.id, now); done {
			promise(&l.promised, ceil(now)+ceil(stressPeriod))
		}
	case mover:
		at := s.e.Now() + rand.N(2*stressPeriod) - stressPeriod/2
		if done = s.e.TouchTo(l.id, at); done {
			l.promised.Store(int64(ceil(at)))
		}
	}
	if ended && done {
		s.t.Error("a timer that had ended was taken for armed")
	}
}

// promise raises a deadline that the timer must not expire before.
func promise(p *atomic.Int64, deadline time.Duration) {
	for {
		old := p.Load()
		if old >= int64(deadline) || p.CompareAndSwap(old, int64(deadline)) {
			return
		}
	}
}

// torment acts on the cells, and on lives it saw there before, until all lives are over.
func (s *stress) torment(mover bool, over <-chan struct{}) {
	var seen [16]*life
	for i := 0; ; i++ {
		select {
		case <-over:
			return
		default:
		}
		if l := s.cells[rand.IntN(len(s.cells))].current.Load(); l != nil {
			seen[i%len(seen)] = l
		}
		if l := seen[rand.IntN(len(seen))]; l != nil {
			s.act(l, mover)
		}
		if i%8 == 0 {
			runtime.Gosched()
		}
	}
}

// Touches, cancellations and expiries of the same few timers agree, whichever comes first.
func TestStress(t *testing.T) {
	for _, cfg := range []timer.Config{{Shards: 1}, {Shards: 2, Eager: true}} {
		t.Run(fmt.Sprintf("shards=%d/eager=%v", cfg.Shards, cfg.Eager), func(t *testing.T) {
			e, err := timer.Start(cfg)
			if err != nil {
				t.Fatal(err)
			}
			s := &stress{t: t, e: e, lives: make([]life, 3000)}
			if s.g, err = e.Group(s.handle); err != nil {
				t.Fatal(err)
			}
			s.living.Add(len(s.lives))
			for i := range 12 {
				c := &cell{moved: i%3 == 0}
				s.cells = append(s.cells, c)
				s.arm(c)
			}
			over := make(chan struct{})
			var tormentors sync.WaitGroup
			for i := range 3 {
				tormentors.Go(func() { s.torment(i == 0, over) })
			}
			s.living.Wait()
			close(over)
			tormentors.Wait()
			s.judge()
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func (s *stress) judge() {
	fired := 0
	for i := range s.lives {
		l := &s.lives[i]
		if l.fired.Load()+l.cancelled.Load() != 1 {
			s.t.Errorf("timer %d fired %d times and was cancelled %d times", i, l.fired.Load(), l.cancelled.Load())
		}
		if l.fired.Load() == 0 {
			continue
		}
		fired++
		at, promised := time.Duration(l.firedAt.Load()), time.Duration(l.promised.Load())
		if at < promised || l.cell.moved && at != promised {
			s.t.Errorf("timer %d fired at the deadline %v, want %v; moved: %v", i, at, promised, l.cell.moved)
		}
	}
	if st := s.e.Stats(); st.Armed != 0 || int(st.Fired) != fired {
		s.t.Errorf("Armed, Fired = %d, %d, want 0, %d", st.Armed, st.Fired, fired)
	}
	s.t.Logf("%d of %d timers fired", fired, len(s.lives))
}

// The runs of a repeating timer never overlap, and their deadlines grow, while others touch it;
// after Cancel at most one run that was claimed before comes.
func TestStressRepeating(t *testing.T) {
	e, err := timer.Start(timer.Config{Shards: 1, Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	const timers, runsEach = 6, 100
	var running, runs [timers]atomic.Int32
	var last [timers]atomic.Int64
	var enough sync.WaitGroup
	enough.Add(timers)
	g, err := e.Group(func(expired []timer.Expired) {
		for _, x := range expired {
			if running[x.Data].Add(1) != 1 {
				t.Errorf("the runs of timer %d overlap", x.Data)
			}
			if before := time.Duration(last[x.Data].Swap(int64(x.Deadline))); before >= x.Deadline {
				t.Errorf("timer %d expired at the deadline %v after %v", x.Data, x.Deadline, before)
			}
			if runs[x.Data].Add(1) == runsEach {
				enough.Done()
			}
		}
		runtime.Gosched()
		for _, x := range expired {
			running[x.Data].Add(-1)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids [timers]timer.ID
	for i := range ids {
		mode := timer.Repeat(i%2 + 1)
		if ids[i], err = g.Repeat(e.Now(), time.Duration(i+1)*timer.Resolution, mode, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan struct{})
	var touchers sync.WaitGroup
	for range 2 {
		touchers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					if !e.Touch(ids[rand.IntN(timers)], e.Now()-stressPeriod) {
						t.Error("Touch = false")
					}
					runtime.Gosched()
				}
			}
		})
	}
	enough.Wait()
	close(over)
	touchers.Wait()
	var before [timers]int32
	for i, id := range ids {
		if !e.Cancel(id) {
			t.Error("Cancel = false")
		}
		before[i] = runs[i].Load()
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for i := range runs {
		if n := runs[i].Load(); n > before[i]+1 {
			t.Errorf("timer %d ran %d times after Cancel", i, n-before[i])
		}
	}
}
