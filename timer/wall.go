package timer

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

const (
	// wallCheck is how often the wall clock is compared with the engine's.
	wallCheck = time.Second
	// wallStep is how far they may drift apart before the deadlines that follow it are set anew.
	wallStep = 10 * time.Millisecond
)

// wall is the wall clock beside the engine's.
type wall struct {
	now    func() time.Time
	clock  Clock
	offset atomic.Int64 // what the wall clock reads when the clock reads 0, in nanoseconds since 1970
}

// measure returns the offset, and the largest error of it.
func (w *wall) measure() (offset int64, blur time.Duration) {
	const tries, sharp = 3, 100 * time.Microsecond
	for i := range tries {
		before := w.clock.Now()
		now := w.now().UnixNano()
		took := w.clock.Now() - before
		if i == 0 || took < blur {
			offset, blur = now-int64(before+took/2), took
		}
		if blur < sharp {
			break
		}
	}
	return offset, blur
}

// stepped reports whether the wall clock was set since stepped returned true last, or drifted as
// far.
func (w *wall) stepped() bool {
	offset, blur := w.measure()
	if time.Duration(offset-w.offset.Load()).Abs() < wallStep+blur {
		return false
	}
	w.offset.Store(offset)
	return true
}

// until returns the instant at which the clock will read what the wall clock calls at, if neither
// is set meanwhile. It is too early if the goroutine is held up, but never too late.
func (w *wall) until(at time.Time) time.Duration {
	now := w.clock.Now()
	return add(now, at.Sub(w.now()))
}

// AtTime starts a timer that calls f when the wall clock ([Config.Wall]) reaches an instant, at once
// if it has, and never before. It follows the wall clock when that is set forward or back, or goes
// on after the machine was suspended: within a second on the engine's clock, and then at the cost of
// O(log n) for each such timer. While the engine's clock stands still, so does the timer. A Reset
// or TouchTo that returned true makes it one of the engine's clock. Errors: ErrNoTime, ErrNil,
// ErrFull, ErrClosed, ErrTooFar.
func (e *Engine) AtTime(at time.Time, f func()) (ID, error) {
	if at.IsZero() {
		return 0, ErrNoTime
	}
	if err := e.followWall(); err != nil {
		return 0, err
	}
	at = at.Round(0) // else a monotonic reading would count
	offset := e.wall.offset.Load()
	next := e.wall.until(at)
	id, err := e.armFunc("AtTime", next, 0, &extra{at: at, next: next}, f)
	if err == nil && e.wall.offset.Load() != offset { // the clock was set, and perhaps that was dealt with too early for this timer
		e.shards[id.shard()].setWall()
	}
	return id, err
}

// followWall starts the goroutine that looks at the wall clock, unless it runs.
func (e *Engine) followWall() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return ErrClosed
	}
	if !e.following {
		e.following = true
		offset, _ := e.wall.measure()
		e.wall.offset.Store(offset)
		alarm := e.clock.Alarm()
		alarm.Set(add(e.clock.Now(), wallCheck))
		e.clocks.Go(func() { e.watchWall(alarm) })
	}
	return nil
}

// watchWall sets the deadlines that follow the wall clock anew when that was set.
func (e *Engine) watchWall(alarm Alarm) {
	defer alarm.Stop()
	for {
		select {
		case <-alarm.C():
		case <-e.stop:
			return
		}
		if e.wall.stepped() {
			for _, s := range e.shards {
				s.setWall()
			}
		}
		alarm.Set(add(e.clock.Now(), wallCheck))
	}
}

// setWall sets the deadlines that follow the wall clock anew, some of them under one hold of the
// lock.
func (s *shard) setWall() {
	for refs := range slices.Chunk(s.onWall(), lookLen) {
		s.setWallOf(refs)
	}
}

// onWall returns the timers made by AtTime.
func (s *shard) onWall() (refs []ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, x := range s.extras {
		if !x.at.IsZero() {
			refs = append(refs, r)
		}
	}
	return refs
}

func (s *shard) setWallOf(refs []ref) {
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return
	}
	for _, r := range refs {
		m := s.mapLocked(r)
		o, deadline := m.Tenant(r.slot())
		x := s.extraLocked(m, r)
		if x == nil || !x.followsWall(s.engine.scale, deadline) { // it has ended, or was moved
			continue
		}
		next := x.onWall(s.engine.scale, s.engine.wall)
		if !m.CompareAndSwap(o, deadline, next) { // it was moved, or has ended
			continue
		}
		if x.next = s.engine.scale.instant(next); next < deadline {
			s.advanceLocked(newID(s.index, r.group(), o))
		}
	}
}

// leaveWall lets a timer follow the wall clock no longer.
func (s *shard) leaveWall(id ID) {
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return
	}
	m := s.mapLocked(id.ref())
	if _, ok := m.Load(id.original()); !ok {
		return
	}
	if x := s.extraLocked(m, id.ref()); x != nil {
		x.at = time.Time{}
	}
}

// earlyLocked returns the deadline of a timer that the wall clock, unlike the engine's, has not
// reached yet, if it is one. At the end of the engine's range there is none.
func (s *shard) earlyLocked(m *dualmap.Map, r ref, deadline, now tick) (next tick, early bool) {
	x := s.extraLocked(m, r)
	if x == nil || now >= maxTick || !x.followsWall(s.engine.scale, deadline) || !s.engine.wall.now().Before(x.at) {
		return 0, false
	}
	next = max(x.onWall(s.engine.scale, s.engine.wall), now+1)
	x.next = s.engine.scale.instant(next)
	return next, true
}

// followsWall reports whether a timer with a deadline follows the wall clock: it does until its
// deadline is moved.
func (x *extra) followsWall(s scale, deadline tick) bool {
	return !x.at.IsZero() && s.ceil(x.next) == deadline
}

// onWall returns the deadline of a timer that follows the wall clock.
func (x *extra) onWall(s scale, w *wall) tick { return min(s.ceil(w.until(x.at)), maxTick) }
