package link

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// input is what an ear hears: each has its source, and its rounds.
type input uint8

const (
	connections input = iota
	datagrams         // of devices without connections
	inputs
)

// inputOf returns one of the two.
func inputOf(isDatagrams bool) input {
	if isDatagrams {
		return datagrams
	}
	return connections
}

// rounds is the listening clock of one of an ear's sources. One round is under way at a time.
type rounds struct {
	source   *liveness.Source // nil if the ear does not hear this
	input    input
	kept     time.Duration // listening time since which the ear had kept all that it heard, when it joined
	listened time.Duration // listening time when it joined, as it knew it; 0 if it did not

	mu      sync.Mutex // guards the fields below
	number  uint64
	under   bool // way
	stopped bool // no round begins: there is no stream
	begun   time.Time
	at      time.Duration // listening time at the begin
	waited  time.Duration // since then, while this process was running
	losses  uint64        // how often what was heard began to be lost, or ceased to be: odd while it is, and nobody listens
	over    bool
}

// begin begins a round.
func (r *rounds) begin(m *member, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = false
	r.beginLocked(m, now)
}

// stop stops the rounds until begin is called. The ear is behind meanwhile.
func (r *rounds) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.under, r.stopped, r.waited = false, true, 0
}

func (r *rounds) beginLocked(m *member, now time.Time) {
	if r.over {
		return
	}
	r.number++
	r.under, r.begun, r.waited = true, now, 0
	r.at = r.pulseLocked(now)
	round := &linkpb.Round{Round: r.number, ListenedNs: int64(r.at), Datagrams: r.input == datagrams}
	m.queue.add(&linkpb.JudgeFrame{Body: &linkpb.JudgeFrame_Round{Round: round}})
}

// pulseLocked pulses the source, unless it is deaf, and returns its listening time.
func (r *rounds) pulseLocked(now time.Time) time.Duration {
	if r.losses%2 == 1 {
		return r.source.Time(now)
	}
	return r.source.Pulse(now)
}

// tick begins a round if none is under way; otherwise the source is pulsed all the same: it is
// behind, not deaf. It returns for how long an answer has been waited for.
func (r *rounds) tick(m *member, now time.Time, ran time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over:
		return 0
	case r.stopped:
		r.pulseLocked(now)
	case !r.under:
		r.beginLocked(m, now)
	default:
		r.waited += ran
		r.pulseLocked(now)
	}
	return r.waited
}

// answered handles the answer to a round.
func (r *rounds) answered(m *member, mark *linkpb.Mark, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch number := mark.GetRound(); {
	case r.over, r.stopped:
		return nil
	case number != r.number || !r.under:
		return status.Errorf(codes.InvalidArgument, "round %d is not under way", number)
	}
	r.under = false
	if r.input == connections {
		m.trip.Store(int64(now.Sub(r.begun)))
	}
	if losses := mark.GetDeaf(); losses == r.losses && losses%2 == 0 {
		r.source.Watermark(0, r.at)
	} else {
		r.losses = losses
		r.source.Deafen(now) // until the next pulse
	}
	if now.Sub(r.begun) >= roundEvery {
		r.beginLocked(m, now)
	}
	return nil
}

// end ends the rounds: the source is not pulsed any more.
func (r *rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}
