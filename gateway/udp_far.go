package gateway

import (
	"bytes"
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/remote"
	"github.com/holter-iot/holter/liveness"
)

// A device that sends datagrams may be judged in another process, see [Config]. A heartbeat on its open
// session is noted and answered here. A datagram for which the judge is asked is answered when that has
// answered, and what the device sends meanwhile is a sign of life, and waits behind it.

// remoteDevice is what is kept of a device that another process judges.
type remoteDevice struct {
	granted liveness.Policy // what the judge said that holds; only Timeout and Interval
	waiting *unanswered     // the datagrams for which it is asked; nil if it is not
}

// maxBehind is how many bytes of a device wait behind a datagram for which the judge is asked. What is more
// is a sign of life, and dropped.
const maxBehind = 4 << 10

// unanswered is the datagrams of a device that wait for the judge.
type unanswered struct {
	packets []waitingPacket // in their order; the judge is asked for the first
	wall    time.Time       // when the last was read
	size    int             // of all
	budget  int             // how many messages may be handled,
	paid    int             // and for how many of them the device has been charged
	proven  bool            // each has proved which device sent it
	again   bool            // the session was opened again for the first
}

// waitingPacket is a datagram that waits for the judge.
type waitingPacket struct {
	reader *reader
	to     endpoint // where it came from
	rest   []byte   // what is not handled
	out    []byte   // the answer so far
	size   int
}

// newWaitingPacket returns the datagram that the reader handles.
func (r *reader) newWaitingPacket(rest []byte, size int) waitingPacket {
	p := waitingPacket{reader: r, to: r.batch.from[r.current], rest: bytes.Clone(rest), size: size}
	p.to.anyInterface()
	return p
}

// keepLocked has the datagram that the reader handles wait for the judge, who is asked for what is before
// rest.
func (v *udpSession) keepLocked(r *reader, rest []byte, size int, proven bool) {
	x, p := &r.exchange, r.newWaitingPacket(rest, size)
	p.out = bytes.Clone(x.out[x.begin:])
	x.out = x.out[:x.begin]
	v.remote.waiting = &unanswered{packets: []waitingPacket{p}, wall: x.readAt, size: size, budget: x.budget, proven: proven}
}

// waitLocked has a datagram wait behind another one, which is a sign of life at once.
func (v *udpSession) waitLocked(r *reader, spoken uint8, input []byte, proven bool) {
	x, w := &r.exchange, v.remote.waiting
	v.conversation.details.far.Beat(x.elapsed())
	v.intake.spend(r.listener, x.elapsed(), 1, len(input))
	if spoken != v.conversation.spoken || proven != w.proven || w.size+len(input) > maxBehind {
		v.floods(r.address())
		return
	}
	w.packets = append(w.packets, r.newWaitingPacket(input, len(input)))
	w.wall, w.budget = x.readAt, x.budget
	w.size += len(input)
	w.paid++
}

// answers is a queue of what a judge has answered, and handles it. There is at most one for each device.
type answers struct {
	exchange exchange // of run

	mu    sync.Mutex // guards queue
	queue []packetAnswer

	some chan struct{} // room for one; never closed; receives when there are some
}

// packetAnswer is what a judge has answered about a device that sends datagrams.
type packetAnswer struct {
	*udpSession

	pending   *pendingReply
	judgement judgement
}

// answer implements replyTarget.
func (v *udpSession) answer(a *pendingReply, j judgement) { v.udp.answers.add(packetAnswer{v, a, j}) }

// add queues an answer. It does not block.
func (q *answers) add(a packetAnswer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, a)
	select {
	case q.some <- struct{}{}:
	default:
	}
}

func (q *answers) takeAnswers() []packetAnswer {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.queue
	q.queue = nil
	return taken
}

// run handles answers until ctx is done.
func (q *answers) run(ctx context.Context) error {
	for {
		select {
		case <-q.some:
		case <-ctx.Done():
			return nil
		}
		for _, a := range q.takeAnswers() {
			a.handle(&q.exchange)
		}
	}
}

// handle goes on with the datagrams that have waited for an answer. A panic in a codec costs these only.
func (a packetAnswer) handle(x *exchange) {
	v := a.udpSession
	v.mu.Lock()
	defer v.mu.Unlock()
	t, w := &v.conversation, v.remote.waiting
	if !t.awaitsReply() || t.details.pending != a.pending {
		return
	}
	if v.gone { // it was evicted; the device repeats what is not answered
		t.details.pending, v.remote.waiting = nil, nil
		return
	}
	defer func() {
		if p := recover(); p != nil {
			t.details.pending, v.remote.waiting = nil, nil
			v.leaveLocked()
			v.udp.gateway.counts.panics.Add(1)
			v.udp.gateway.log.Error("a datagram made the gateway panic; it is dropped", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	a.pending.judgement, a.pending.answered = a.judgement, true
	x.readAt, x.peer, x.udpSession, x.admitted, x.budget = w.wall, v, v, true, w.budget
	v.goOnLocked(x)
	used := w.budget - x.budget
	v.intake.spend(x.listener, x.elapsed(), max(used-w.paid, 0), 0)
	if t.awaitsReply() {
		w.budget, w.paid = x.budget, max(w.paid-used, 0)
		return
	}
	v.remote.waiting = nil
	if !t.established {
		v.leaveLocked()
	} else if far := t.far(); far.Ended() {
		v.settleFarLocked(far)
	}
}

// goOnLocked handles the message that the judge has answered, and what waits behind it, until the judge is
// asked again. What is behind the end is dropped.
func (v *udpSession) goOnLocked(x *exchange) {
	t, w, end := &v.conversation, v.remote.waiting, false
	for first := true; ; first = false {
		p := &w.packets[0]
		x.listener, x.sender, x.begin = p.reader.listener, &p.to, 0
		if x.out = append(x.out[:0], p.out...); first {
			end = t.proceed(x, false)
		}
		if !end && t.established && !t.awaitsReply() {
			p.rest, end = t.hear(x, p.rest)
		}
		if t.awaitsReply() {
			p.out = bytes.Clone(x.out)
			return
		}
		if x.budget == 0 && len(p.rest) > 0 {
			v.floods(p.to.address())
		}
		if end && !t.broken {
			v.leaveLocked() // before the device knows: there is room for another then
		}
		v.sendAnswer(x, p)
		w.again = false
		if w.packets = w.packets[1:]; end || !t.established || len(w.packets) == 0 {
			return
		}
	}
}

// sendAnswer sends x.out to where a datagram came from.
func (v *udpSession) sendAnswer(x *exchange, p *waitingPacket) {
	if len(x.out) == 0 || !v.remote.waiting.proven && !v.udp.mayAnswer(x, len(x.out), p.size) {
		return
	}
	if sendTo(p.reader.raw, &p.to, x.out) != nil {
		v.udp.counts.unsent.Add(1)
	}
}

// renewFarLocked answers a hello on a session that a judge elsewhere has, or asks the judge for another
// policy.
func (v *udpSession) renewFarLocked(x *exchange, said liveness.Policy) {
	t, o := &v.conversation, &x.outcome
	if said != (liveness.Policy{}) && said != v.said {
		t.far().UpdatePolicy(x.elapsed(), said, t.requestReply(x, newPendingReply()))
		return
	}
	o.Epoch, o.Timeout, o.Interval = t.epoch(), v.remote.granted.Timeout, v.remote.granted.Interval
}

// reopenLocked opens the session again for a message that came just when another gateway had heard the
// device, and repeats the question then. It returns false if it has done so before.
func (v *udpSession) reopenLocked(x *exchange) bool {
	w, m := v.remote.waiting, &x.message
	if w.again {
		return false
	}
	if m.Timeout == 0 && m.Interval == 0 {
		m.Timeout, m.Interval = v.said.Timeout, v.said.Interval
	}
	w.again, v.conversation.established = true, false
	v.replaced.Store(false)
	v.dismissed.Store(false)
	v.conversation.open(x, v.id, m, v.conversation.unverified(x))
	return true
}

// answeredLocked notes what the judge has answered to a message on an open session.
func (v *udpSession) answeredLocked(x *exchange, a *pendingReply) {
	if a.welcome.Policy.Timeout != 0 {
		v.remote.granted = a.welcome.Policy
	}
	if m := &a.message; m.Kind == codec.Hello {
		v.said = liveness.Policy{Timeout: m.Timeout, Interval: m.Interval}
		x.outcome.Epoch = v.conversation.epoch()
	}
}

// settleFarLocked drops the device if its session has ended, and it is known how, or was judged. Its next
// datagram opens another: the address of a device that sends datagrams may have another gateway behind it
// by then.
func (v *udpSession) settleFarLocked(far remote.Session) {
	dismissed := v.dismissed.Load()
	ended := far.Ended() && (dismissed || v.replaced.Load())
	if v.gone || v.conversation.awaitsReply() || !ended && !far.Judged() {
		return
	}
	if ended && dismissed && v.home != nil {
		v.sendLocked(v.conversation.codec.Goodbye(nil, whyDismissed, nil))
	}
	v.leaveLocked()
}
