package timer

import (
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

// funcGroup is the group of the timers that have a func each.
const funcGroup = 0

// Expired is one timer that has expired.
type Expired struct {
	ID       ID
	Data     uint64        // what it was armed with
	Deadline time.Duration // the instant on the engine's clock, a multiple of Resolution
	Touched  time.Duration // one period before it: the last touch, or the arming, rounded up to Resolution

	f func()
}

// Handler is called with timers of one group that have expired, in the order of their deadlines, up
// to 256 at a time. It runs on a worker's goroutine, concurrently with other calls for the same
// group but never for the same timer. It may block, which holds up that worker alone. The slice is
// the engine's again when it returns. If it panics, what is left of the batch is lost; repeating
// timers go on all the same.
type Handler func(expired []Expired)

// Group is a number of timers that share a handler. Its methods may be called concurrently.
type Group struct {
	engine  *Engine
	index   uint8
	handler Handler
	maps    []*dualmap.Map // by shard; each guarded by that shard's lock
}

// Group adds a group of timers to the engine. Groups are few (256) and stay as long as the engine.
// Errors: ErrNil, ErrGroups, ErrClosed.
func (e *Engine) Group(h Handler) (*Group, error) {
	if h == nil {
		return nil, fmt.Errorf("%w: Group got a nil Handler", ErrNil)
	}
	return e.addGroup(h)
}

func (e *Engine) addGroup(h Handler) (*Group, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil, ErrClosed
	}
	groups := *e.groups.Load()
	if len(groups) == maxGroups {
		return nil, ErrGroups
	}
	g := &Group{engine: e, index: uint8(len(groups)), handler: h}
	memory := e.memory
	if g.index == funcGroup {
		memory = nil // a func ends with its process
	}
	for _, s := range e.shards {
		m := dualmap.New(1<<slotBits, e.eager, memory)
		g.maps = append(g.maps, m)
		s.slabs[g.index].Store(m)
	}
	groups = append(slices.Clip(groups), g)
	e.groups.Store(&groups)
	return g, nil
}

// Arm starts a timer that expires one period after now, an instant on the engine's clock, unless it
// is touched. A period that is not positive expires at once. The group's handler gets data. Errors:
// ErrFull, ErrClosed, ErrTooFar.
func (g *Group) Arm(now, period time.Duration, data uint64) (ID, error) {
	return g.engine.arm(g, add(now, period), period, data, nil, nil)
}

// ArmAt is like Arm with a first deadline of its own.
func (g *Group) ArmAt(deadline, period time.Duration, data uint64) (ID, error) {
	return g.engine.arm(g, deadline, period, data, nil, nil)
}

// Repeat starts a timer that expires one period after now and then again and again. A period that
// is not positive expires once, at once. A timer never expires while its handler runs for it.
func (g *Group) Repeat(now, period time.Duration, mode Repeat, data uint64) (ID, error) {
	return g.engine.arm(g, add(now, period), period, data, newRepeat(now, period, mode), nil)
}

// AfterFunc starts a timer that calls f on a worker's goroutine once d has passed. It may be
// touched, with d as its period. Errors: ErrNil, ErrFull, ErrClosed, ErrTooFar.
func (e *Engine) AfterFunc(d time.Duration, f func()) (ID, error) {
	return e.armFunc("AfterFunc", add(e.Now(), d), d, nil, f)
}

// AtFunc starts a timer that calls f when the engine's clock reaches an instant. It has no period
// until a Reset gives it one, so that touching it matters only once the instant has passed. Errors:
// ErrNil, ErrFull, ErrClosed, ErrTooFar.
func (e *Engine) AtFunc(at time.Duration, f func()) (ID, error) {
	return e.armFunc("AtFunc", at, 0, nil, f)
}

// RepeatFunc starts a timer that calls f one period from now and then again and again; see
// [Group.Repeat]. Errors: ErrNil, ErrFull, ErrClosed, ErrTooFar.
func (e *Engine) RepeatFunc(period time.Duration, mode Repeat, f func()) (ID, error) {
	now := e.Now()
	return e.armFunc("RepeatFunc", add(now, period), period, newRepeat(now, period, mode), f)
}

// armFunc starts a timer with a func for the named call.
func (e *Engine) armFunc(call string, at, period time.Duration, x *extra, f func()) (ID, error) {
	if f == nil {
		return 0, fmt.Errorf("%w: %s got a nil func", ErrNil, call)
	}
	return e.arm((*e.groups.Load())[funcGroup], at, period, 0, x, f)
}
