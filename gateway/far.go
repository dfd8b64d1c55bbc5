package gateway

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/remote"
	"github.com/holter-iot/holter/liveness"
)

// A gateway may hold the connections of devices that another process judges, see [Config.Judge].
// Then a heartbeat is noted here, and everything else is asked of the judge: the conversation goes
// on when that has answered, which is after the events were committed. So nothing is held, and what
// the device sends behind waits in its connection.

// far returns the device's session at the judge; nil if the registry here judges it.
func (t *conversation) far() remote.Session {
	if t.details == nil {
		return nil
	}
	return t.details.far
}

// id returns the id of the device whose session is open; "" if none is.
func (t *conversation) id() string {
	if !t.established {
		return ""
	}
	switch far := t.far(); {
	case t.guest:
		return ""
	case far != nil:
		return far.ID()
	}
	return t.session.ID()
}

// pending reports whether something about the device waits to be committed. What a judge elsewhere
// has answered is.
func (t *conversation) pending() bool { return t.far() == nil && t.session.Pending() }

// farPeer is a connection as the judge's peer. It knows the device without the connection's lock.
type farPeer struct {
	*connection

	id string
}

// Replaced implements [liveness.Peer].
func (p *farPeer) Replaced() {
	p.gateway.replaced(p.connection, p.id)
}

// pendingReply is a message of which the judge was asked. It belongs to whoever has the connection's lock.
type pendingReply struct {
	judgement

	message  codec.Message
	id       string // of an opening
	again    bool   // the session was open before that
	opens    bool
	admits   bool // the codec was asked, see codec.Authenticator
	answered bool
	ready    chan judgement // room for one
}

func newPendingReply() *pendingReply { return &pendingReply{ready: make(chan judgement, 1)} }

// judgement is what the judge answers.
type judgement struct {
	welcome   liveness.Welcome
	err       error
	admission codec.Admission
}

// awaitsReply reports whether the judge was asked for something, and the conversation waits.
func (t *conversation) awaitsReply() bool { return t.details != nil && t.details.pending != nil }

// awaitsHello reports whether the judge was asked to open the session, and has not answered. Meanwhile
// nothing is read: the device may close the connection behind its first words, which count.
func (t *conversation) awaitsHello() bool { return t.awaitsReply() && !t.established }

// requestReply makes the conversation wait for the judge. The result is passed to it.
func (t *conversation) requestReply(x *exchange, a *pendingReply) (done func(liveness.Welcome, error)) {
	t.wait(x, a)
	to := x.peer.(replyTarget)
	return func(w liveness.Welcome, err error) { to.answer(a, judgement{welcome: w, err: err}) }
}

// wait makes the conversation wait for an answer about the message.
func (t *conversation) wait(x *exchange, a *pendingReply) {
	if t.details == nil {
		t.details = &details{}
	}
	a.message = x.message
	for _, b := range []*[]byte{&a.message.ID, &a.message.Token, &a.message.Text} {
		*b = bytes.Clone(*b)
	}
	t.details.pending = a
}

// replyTarget is a transport whose conversation waits for what the judge answers. Any goroutine may call it; it
// does not block.
type replyTarget interface {
	answer(a *pendingReply, j judgement)
}

// answer implements replyTarget.
func (c *connection) answer(a *pendingReply, j judgement) { c.link.answer(a, j) }

var _, _ replyTarget = (*connection)(nil), (*udpSession)(nil)

// elapsed returns when what is being handled was read.
func (x *exchange) elapsed() time.Duration { return x.readAt.Sub(x.gateway.began) }

// askOpen asks the judge to open the session of a device that was admitted.
func (t *conversation) askOpen(x *exchange, id string, h liveness.Hello) {
	a := newPendingReply()
	a.id, a.opens, a.again = strings.Clone(id), true, t.established
	done := t.requestReply(x, a)
	if a.again {
		t.details.far.Reopen(x.elapsed(), h, done)
		return
	}
	judge := x.gateway.config.Judge
	if v := x.udpSession; v != nil {
		if v.remote == nil {
			v.remote = new(remoteDevice)
		}
		t.details.far = judge.OpenDatagrams(v.id, h, v, x.elapsed(), done)
		return
	}
	t.details.far = judge.Open(a.id, h, &farPeer{x.peer.(*connection), a.id}, x.elapsed(), done)
}

// askSignal asks the judge for what the message means.
func (t *conversation) askSignal(x *exchange, kind codec.Kind) {
	m, far := &x.message, t.far()
	done := t.requestReply(x, newPendingReply())
	switch kind {
	case codec.Repace:
		far.UpdatePolicy(x.elapsed(), liveness.Policy{Timeout: m.Timeout, Interval: m.Interval}, done)
	case codec.Sleep:
		far.Sleep(x.elapsed(), m.Duration, done)
	case codec.Fail:
		far.Fail(x.elapsed(), string(m.Text), done)
	case codec.Bye:
		far.Bye(x.elapsed(), done)
	default:
	}
}

// proceed goes on with the message of which the judge was asked, unless that has not answered yet.
// What comes meanwhile is a sign of life, and handled later.
func (t *conversation) proceed(x *exchange, more bool) (end bool) {
	a, established := t.details.pending, t.established
	if !a.answered {
		if more && t.established {
			t.details.far.Beat(x.elapsed())
		}
		return false
	}
	t.details.pending = nil // far is kept there, too
	x.message, x.outcome = a.message, codec.Outcome{Now: x.readAt}
	switch v := x.udpSession; {
	case a.admits:
		x.peer.(*connection).where().replied(a)
		t.admitted(x, a.admission)
		end = !t.awaitsReply() && t.introductionEnds(x)
	case a.opens:
		end = t.answeredOpen(x, a)
	case v != nil && errors.Is(a.err, liveness.ErrReplaced) && v.reopenLocked(x):
	default:
		end = t.answeredSignal(x, a)
	}
	if t.awaitsReply() {
		return false
	}
	return t.answer(x, established, end)
}

func (t *conversation) answeredOpen(x *exchange, a *pendingReply) (end bool) {
	t.opened(x, a.id, a.welcome, a.err)
	if v := x.udpSession; v != nil && a.err == nil {
		v.remote.granted = a.welcome.Policy
	}
	switch {
	case a.again:
		return t.welcomedAgain(x)
	case a.err != nil:
		t.details.far = nil
	case a.message.Kind != codec.Hello && a.message.Kind != codec.Proof:
		t.meansMore(x)
		if t.awaitsReply() {
			return false
		}
	}
	return t.introductionEnds(x)
}

func (t *conversation) answeredSignal(x *exchange, a *pendingReply) (end bool) {
	o, bye := &x.outcome, a.message.Kind == codec.Bye
	if !bye || x.udpSession != nil { // in datagrams it can be said again
		o.Err = t.refusal(a.err)
	}
	o.Timeout, o.Interval, o.Granted = a.welcome.Policy.Timeout, a.welcome.Policy.Interval, a.welcome.Granted
	if v := x.udpSession; v != nil && a.err == nil {
		v.answeredLocked(x, a)
	}
	return bye
}

// elapsed returns the time since the gateway was made, which a judge goes by.
func (g *Gateway) elapsed() time.Duration { return time.Since(g.began) }

// operator is a gateway as the server needs it.
type operator struct{ *Gateway }

// Operator returns what the server needs beside this package's other methods. It may change at any time.
func (g *Gateway) Operator() remote.Gateway { return operator{g} }

// Elapsed implements [remote.Gateway].
func (g operator) Elapsed() time.Duration { return g.elapsed() }
