package gateway

import (
	"errors"
	"slices"
	"strings"
	"unsafe"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
)

// beforeHello handles a message before the session is open.
func (t *conversation) beforeHello(x *exchange) (end bool) {
	m, o := &x.message, &x.outcome
	switch {
	case m.Kind == codec.None:
		return false
	case (m.Kind == codec.Bye || m.Kind == codec.Leave) && len(m.ID) == 0:
		return true
	case o.Err != nil: // the codec's word
		t.tellMistake(x)
	case m.Kind == codec.Register:
		t.register(x)
	case m.Kind == codec.Challenge:
		t.challenge(x)
	case m.Kind == codec.Proof:
		t.proof(x)
	case m.Kind == codec.Hello:
		t.hello(x)
	case len(m.ID) > 0:
		t.introduced(x)
	case m.Odd != "":
		o.Err = &codec.Error{Code: codec.NotSpoken, Text: "unknown message; this port speaks: " + x.listener.names()}
	default:
		o.Err = &codec.Error{Code: codec.HelloFirst, Text: "the first message must be a hello; in the line protocol: HELLO <id> ttl=60s"}
	}
	return t.introductionEnds(x)
}

// introductionEnds reports whether the answer to a message before the session was open ends the
// conversation.
func (t *conversation) introductionEnds(x *exchange) bool {
	err := x.outcome.Err
	if err == nil {
		return x.message.Kind == codec.Bye
	}
	t.wrong++
	_, live := t.codec.(codec.Live)
	t.broken = live || t.wrong >= maxMistakes || final(err.Code)
	return t.broken
}

// final reports whether a device may not try again on this connection after a refusal of its hello.
func final(c codec.Code) bool {
	return slices.Contains([]codec.Code{
		codec.StaleEpoch, codec.Unauthorized, codec.Full, codec.Busy, codec.NotSpoken, codec.Duplicate,
	}, c)
}

// introduced opens the session of a device that names itself in each message, and does what else
// the message means.
func (t *conversation) introduced(x *exchange) {
	if t.hello(x); x.outcome.Err == nil && !t.awaitsReply() {
		t.meansMore(x)
	}
}

// meansMore does what else a message means that opened the session.
func (t *conversation) meansMore(x *exchange) {
	switch x.message.Kind {
	case codec.Sleep, codec.Fail, codec.Bye:
		t.signal(x)
	default:
	}
}

// hello opens the session of the device that the message names.
func (t *conversation) hello(x *exchange) {
	m := &x.message
	if by, ok := t.codec.(codec.Authenticator); ok {
		t.authenticate(x, by)
		return
	}
	id := unsafe.String(unsafe.SliceData(m.ID), len(m.ID)) // Open copies it if it keeps it
	if err := t.admit(x, id, m.Token); err != nil {
		x.outcome.Err = err
		return
	}
	t.open(x, id, m, t.unverified(x))
}

// unverified reports whether nothing that the device has shown to the guard proves who it is.
func (t *conversation) unverified(x *exchange) bool { return x.gateway.open && !t.certified() }

// open opens the session of a device that was admitted.
func (t *conversation) open(x *exchange, id string, m *codec.Message, unverified bool) {
	timeout := m.Timeout
	if timeout == codec.Never {
		timeout = liveness.Never
	}
	hello := liveness.Hello{
		Epoch: m.Epoch, Announced: liveness.Policy{Timeout: timeout, Interval: m.Interval}, Unverified: unverified, Quota: x.listener.quota,
	}
	if c, ok := x.peer.(*connection); ok && !t.established {
		hello.Left = c.leftAt(x)
	}
	if x.gateway.config.Judge != nil {
		t.askOpen(x, id, hello)
		return
	}
	welcome, err := x.listener.source.Open(&t.session, id, hello, x.peer, x.readAtListening)
	t.opened(x, id, welcome, err)
}

// opened handles the outcome of an opening.
func (t *conversation) opened(x *exchange, id string, welcome liveness.Welcome, err error) {
	switch {
	case err == nil:
	case errors.Is(err, liveness.ErrFull), errors.Is(err, liveness.ErrQuota):
		x.outcome.Err = x.listener.full(x, id, err)
		return
	default:
		x.outcome.Err = unwelcome(err)
		return
	}
	x.outcome.Epoch, x.outcome.Timeout, x.outcome.Interval = welcome.Epoch, welcome.Policy.Timeout, welcome.Policy.Interval
	t.establish(x)
	x.gateway.duplicateIDs.opened(x.readAt, id, x.address())
	if t.details != nil {
		t.details.challenge = nil
	}
}

func unwelcome(err error) *codec.Error {
	switch {
	case errors.Is(err, liveness.ErrInvalidID):
		return &codec.Error{Code: codec.BadID, Text: strings.TrimPrefix(err.Error(), "liveness: ")}
	case errors.Is(err, liveness.ErrStaleEpoch):
		return &codec.Error{Code: codec.StaleEpoch, Text: "the device has used a later epoch; count up, or leave epoch= out"}
	case errors.Is(err, liveness.ErrBusy):
		return busy()
	case errors.Is(err, liveness.ErrReplaced):
		return replaced()
	default:
		return &codec.Error{Code: codec.BadHello, Text: err.Error()}
	}
}

func replaced() *codec.Error {
	return &codec.Error{Code: codec.Duplicate, Text: "the device came back on another connection"}
}

// busy is what a device is told while events cannot be stored.
func busy() *codec.Error {
	return &codec.Error{Code: codec.Busy, Text: "the server cannot store events at the moment; heartbeats still count, repeat this message later"}
}
