package schedule

import (
	"context"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holter-iot/holter/timer"
)

// Run is one run of a schedule.
type Run struct {
	Name      string    // what [Plan.Name] said
	Number    uint64    // 1 for the schedule's first run, or what [Plan.Continue] said plus 1; no number comes twice
	Scheduled time.Time // the instant that it is run for; that of the call for RunNow
	Manual    bool      // it was asked for by [Handle.RunNow]
}

// Status is a snapshot of a schedule.
type Status struct {
	Next    time.Time // as of [Handle.Next]
	Last    time.Time // the instant of the latest run that has begun, the zero time if none has
	Runs    uint64    // the number of that run
	Running int       // runs in progress
	Waiting int       // runs that wait for a worker, or for the run before
	Paused  bool
	Ended   bool // it was cancelled, or has no instant left
}

// Handle is a schedule that an engine holds. Its methods may be called concurrently, also by its own runs, and never block.
type Handle struct {
	engine   *Engine
	name     string
	schedule Schedule
	call     func(context.Context, Run)
	jitter   time.Duration
	behind   *Handle // in the ready line; guarded by its lock
	index    uint32  // set once, when it is added
	overlap  Overlap
	misfire  Misfire
	steady   bool // its instants are of the steady clock

	mu        sync.Mutex // guards the fields below; taken before the engine's and the ready line's
	paused    bool
	ended     bool // no instant comes any more
	cancelled bool // nor does a run that waits begin
	inLine    bool // it stands in the ready line
	running   int32
	next      int64 // nanoseconds since 1970; the instant that the timer is for, or was when it is paused
	delay     time.Duration
	id        timer.ID // 0 while not armed
	number    uint64
	last      int64 // 0: none
	waiting   []waiting
}

// waiting is a run that waits.
type waiting struct {
	at     int64
	manual bool
}

// horizon is how far ahead timers are set; what is further is looked at again then.
const horizon = 366 * 24 * time.Hour

// setNextLocked makes an instant the next one, and reports whether it is one that the engine can wait for. One that passed before
// instants can be counted is the first that can.
func (h *Handle) setNextLocked(next time.Time) bool {
	const firstYear, lastYear = 1679, 2261 // in which UnixNano is defined
	if next.IsZero() || next.Year() > lastYear {
		h.ended = true
		return false
	}
	if next.Year() < firstYear {
		next = time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	h.next, h.delay = next.UnixNano(), 0
	if h.jitter > 0 {
		h.delay = rand.N(h.jitter)
	}
	return true
}

// armLocked sets the timer for the next instant, if the engine runs.
func (h *Handle) armLocked() {
	t := h.engine.timers.Load()
	if t == nil || h.paused || h.ended {
		return
	}
	id, err := t.group.ArmAt(h.deadlineLocked(), 0, uint64(h.index))
	if err == nil { // else the engine is closed
		h.id = id
	}
}

// deadlineLocked returns when to look at the handle, on the steady clock.
func (h *Handle) deadlineLocked() time.Duration {
	c := h.engine.clock
	now, until := c.steady.Now(), plus(h.next, h.delay)
	at := minus(until, c.base(h.steady))
	// The wall may be a little behind what the offset says of it.
	if left := minus(h.next, c.read(h.steady)); left > 0 {
		at = max(at, time.Duration(plus(int64(now), left)))
	}
	return min(at, now+horizon)
}

// rearm sets the timer anew.
func (h *Handle) rearm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id == 0 {
		h.armLocked()
	} else if t := h.engine.timers.Load(); !h.steady {
		t.engine.TouchTo(h.id, h.deadlineLocked()) // if it has expired already, fire looks at the clock itself
	}
}

// goOnFromNow makes the first instant from now on the next one, if that is earlier.
func (h *Handle) goOnFromNow() {
	if h.steady {
		return
	}
	next := h.following(time.Unix(0, h.engine.clock.read(false)))
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended && !next.IsZero() && next.Before(time.Unix(0, h.next)) {
		h.setNextLocked(next)
	}
}

// fire is called when a timer has expired, and reports whether the schedule has ended.
func (h *Handle) fire(id timer.ID) bool {
	h.mu.Lock()
	first, delay, mine := h.next, h.delay, h.id == id
	h.mu.Unlock()
	if !mine { // it is of another time, or of another handle
		return false
	}
	now := h.engine.clock.read(h.steady)
	due := now >= plus(first, delay)
	var found findings
	if due {
		found = h.find(first, now, delay)
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id != id { // it was paused, or cancelled, meanwhile
		return false
	}
	h.id = 0
	if due && h.next == first { // the clock was not set meanwhile
		h.takeLocked(found)
	}
	h.armLocked()
	return h.ended
}

// findings are the results of a schedule for an instant that has come.
type findings struct {
	one     int64       // the instant to run for, if no other came before the next look
	misfire bool        // it is not that simple:
	several []time.Time // run for these instead
	next    time.Time
}

// following asks the schedule for its first instant after one, with no lock held. One that panics has none.
func (h *Handle) following(after time.Time) (next time.Time) {
	defer h.recover(Run{Name: h.name, Scheduled: after})
	return following(h.schedule, after)
}

// find asks the schedule, with no lock held. One that panics ends.
func (h *Handle) find(first, now int64, delay time.Duration) (f findings) {
	defer h.recover(Run{Name: h.name, Scheduled: time.Unix(0, first)})
	at, until := time.Unix(0, first), time.Unix(0, now)
	grace := h.engine.cfg.Grace + delay
	next := following(h.schedule, at)
	switch more := !next.IsZero() && !next.After(until); {
	case more:
		f.several = due(h.schedule, at, until, h.misfire, grace)
		f.misfire, next = true, following(h.schedule, until)
	case until.Sub(at) > grace:
		f.several, f.misfire = due(h.schedule, at, until, h.misfire, grace), true
	}
	f.one, f.next = first, next
	return f
}

// takeLocked turns findings into runs.
func (h *Handle) takeLocked(f findings) {
	switch {
	case f.misfire:
		h.engine.counters.misfired.Add(1)
		for _, at := range f.several {
			h.offerLocked(waiting{at: at.UnixNano()}, int(h.misfire))
		}
	case f.one != 0:
		h.offerLocked(waiting{at: f.one}, 0)
	}
	h.setNextLocked(f.next)
}

// offerLocked lets a run wait, if the overlap policy or the number of runs to catch up with admits it.
func (h *Handle) offerLocked(w waiting, catchUp int) bool {
	if !h.overlap.Admits(int(h.running), len(h.waiting)) && len(h.waiting) >= catchUp {
		h.engine.counters.skipped.Add(1)
		return false
	}
	h.waiting = append(h.waiting, w)
	h.lineUpLocked()
	return true
}

// lineUpLocked puts the handle into the ready line if it has a run to start.
func (h *Handle) lineUpLocked() {
	if len(h.waiting) > 0 && !h.inLine && (h.running == 0 || h.overlap == OverlapAllow) {
		h.inLine = true
		h.engine.ready.put(h)
	}
}

// run performs a waiting run.
func (h *Handle) run(ctx context.Context) {
	r, ok := h.begin(ctx)
	if !ok {
		return
	}
	defer h.end()
	defer h.recover(r)
	h.call(ctx, r)
}

// begin takes the first run that waits.
func (h *Handle) begin(ctx context.Context) (Run, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inLine = false
	if h.cancelled || len(h.waiting) == 0 || ctx.Err() != nil {
		h.waiting = nil
		return Run{}, false
	}
	w := h.waiting[0]
	h.waiting = append(h.waiting[:0], h.waiting[1:]...)
	h.running++
	h.number++
	h.last = w.at
	h.lineUpLocked()
	h.engine.counters.running.Add(1)
	h.engine.counters.runs.Add(1)
	return Run{Name: h.name, Number: h.number, Scheduled: h.shownLocked(w.at), Manual: w.manual}, true
}

func (h *Handle) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	h.engine.counters.running.Add(-1)
	h.lineUpLocked()
}

func (h *Handle) recover(r Run) {
	v := recover()
	if v == nil {
		return
	}
	h.engine.counters.panics.Add(1)
	if report := h.engine.cfg.OnPanic; report != nil {
		report(r, v, debug.Stack())
	}
}

// shownLocked returns the reading of the wall clock for an instant.
func (h *Handle) shownLocked(at int64) time.Time {
	return time.Unix(0, at+h.engine.clock.shift(h.steady)).In(h.engine.cfg.Location)
}

// Cancel ends the schedule, and reports whether it had not ended before. No run begins any more; one that goes on is not disturbed.
func (h *Handle) Cancel() bool {
	h.mu.Lock()
	won := !h.ended
	h.ended, h.cancelled, h.waiting = true, true, nil
	h.disarmLocked()
	h.mu.Unlock()
	if won {
		h.engine.remove(h)
	}
	return won
}

func (h *Handle) disarmLocked() {
	if t := h.engine.timers.Load(); t != nil && h.id != 0 {
		t.engine.Cancel(h.id)
	}
	h.id = 0
}

// Pause lets instants pass without a run, until Resume. Runs that wait still begin. It reports whether the schedule went on before.
func (h *Handle) Pause() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused || h.ended {
		return false
	}
	h.paused = true
	h.disarmLocked()
	return true
}

// Resume continues after Pause with the first instant from now on. Instants of the pause are left
// out, whatever the misfire policy. It reports whether the schedule was paused.
func (h *Handle) Resume() bool {
	if !h.Status().Paused {
		return false
	}
	now := h.engine.clock.read(h.steady)
	next := h.following(time.Unix(0, now-1))
	h.mu.Lock()
	if !h.paused || h.ended {
		h.mu.Unlock()
		return false
	}
	h.paused = false
	if h.next < now {
		h.setNextLocked(next)
	}
	h.armLocked()
	ended := h.ended
	h.mu.Unlock()
	if ended {
		h.engine.remove(h)
	}
	return true
}

// RunNow runs once in addition to the schedule's instants, also while it is paused, as soon as
// there is a worker. Errors: ErrBusy, ErrEnded, ErrClosed.
func (h *Handle) RunNow() error {
	if h.engine.isClosed() {
		return ErrClosed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return ErrEnded
	}
	if !h.offerLocked(waiting{at: h.engine.clock.read(h.steady), manual: true}, 0) {
		return ErrBusy
	}
	return nil
}

// Next returns the next instant, without jitter, in the engine's location: the zero time while the schedule is paused, and once it
// has ended.
func (h *Handle) Next() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.nextLocked()
}

func (h *Handle) nextLocked() time.Time {
	if h.paused || h.ended {
		return time.Time{}
	}
	return h.shownLocked(h.next)
}

// Status returns a snapshot of the schedule.
func (h *Handle) Status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Status{
		Next: h.nextLocked(), Runs: h.number, Running: int(h.running), Waiting: len(h.waiting),
		Paused: h.paused && !h.ended, Ended: h.ended,
	}
	if h.last != 0 {
		s.Last = h.shownLocked(h.last)
	}
	return s
}
