package link

import (
	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// Whoever is told that something was done can rely on it: an answer is held until the events that
// it tells of are committed, and those that follow it for the same session stay behind it.
// Heartbeats are not answered and wait for nothing.

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

// settleAll lets answers go.
func settleAll(all []holding, committed bool) {
	for _, h := range all {
		h.settle(committed)
	}
}
