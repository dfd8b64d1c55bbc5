package link

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// Whoever is told that something was done can rely on it: an answer is held until the events that
// it tells of are committed, and those that follow it for the same session stay behind it.
// Heartbeats are not answered and wait for nothing.

const (
	// heldPatience is how long an answer is held at most. Then it is ErrBusy.
	heldPatience = 2 * time.Second
	// maxAsked is how many calls of Registry.AfterCommit may be outstanding.
	maxAsked = 1024
)

// holding is an answer that is held.
type holding struct {
	seat   *seat
	answer *linkpb.Answer
}

// settle lets an answer go.
func (h holding) settle(committed bool) {
	if !committed && h.answer.GetCode() == linkpb.Code_CODE_NONE {
		h.answer.Code, h.answer.Text = codeOf(liveness.ErrBusy)
	}
	h.seat.member.queue.answer(h.answer)
	h.seat.held.Add(-1)
}

// holds lets answers go when what they tell of is committed.
type holds struct {
	registry *liveness.Registry

	mu    sync.Mutex // guards fresh
	fresh []holding

	some  chan struct{} // room for one; never closed; receives when there are fresh ones, or a wait has ended
	asked atomic.Int64  // how many times the registry was asked and has not answered yet
}

func (h *holds) init(registry *liveness.Registry) {
	h.registry, h.some = registry, make(chan struct{}, 1)
}

// add takes answers that wait. It does not block.
func (h *holds) add(answers []holding) {
	if len(answers) == 0 {
		return
	}
	h.mu.Lock()
	h.fresh = append(h.fresh, answers...)
	h.mu.Unlock()
	h.wake()
}

func (h *holds) wake() {
	select {
	case h.some <- struct{}{}:
	default:
	}
}

func (h *holds) take() []holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.fresh
	h.fresh = nil
	return taken
}

// group is answers that wait for one call of Registry.AfterCommit.
type group struct {
	answers []holding
	since   time.Time
	asked   bool         // the registry was
	outcome atomic.Int32 // 0 while it has not answered, then one of those below
}

const (
	isCommitted = 1 + iota
	isLost
)

// ask has the registry report when all that the answers tell of is committed.
func (h *holds) ask(g *group) {
	if g.asked || h.asked.Load() >= maxAsked {
		return
	}
	g.asked = true
	h.asked.Add(1)
	h.registry.AfterCommit(func(committed bool) {
		if committed {
			g.outcome.Store(isCommitted)
		} else {
			g.outcome.Store(isLost)
		}
		h.asked.Add(-1)
		h.wake()
	})
}

// run lets answers go until ctx is done.
func (h *holds) run(ctx context.Context) {
	alarm := time.NewTimer(heldPatience)
	defer alarm.Stop()
	for groups := []*group(nil); ; {
		select {
		case <-h.some:
		case <-alarm.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if fresh := h.take(); len(fresh) > 0 {
			if n := len(groups); n > 0 && !groups[n-1].asked { // as the registry has not answered for so many, these may wait for less long
				groups[n-1].answers = append(groups[n-1].answers, fresh...)
			} else {
				groups = append(groups, &group{answers: fresh, since: now})
			}
		}
		if n := len(groups); n > 0 {
			h.ask(groups[n-1])
		}
		for len(groups) > 0 {
			g := groups[0]
			outcome := g.outcome.Load()
			if outcome == 0 && now.Sub(g.since) < heldPatience {
				alarm.Reset(g.since.Add(heldPatience).Sub(now))
				break
			}
			for _, a := range g.answers {
				a.settle(outcome == isCommitted)
			}
			groups = groups[1:]
		}
	}
}
