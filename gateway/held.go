package gateway

import (
	"bytes"

	"github.com/holter-iot/holter/gateway/codec"
)

// Whoever is told that something was done can rely on it, whatever happens to the process: an
// answer to anything that caused an event is held until that is committed. Input is read meanwhile,
// and the answers to it stay behind the one that is held. Heartbeats cause no events, as a rule, so
// their answers are held only behind another one.

// answer is what a device is told.
type answer struct {
	out   []byte
	busy  []byte // is said in its place if what it tells of is not committed in time
	size  int    // of the longer
	waits bool   // for that to be committed
	opens bool   // the session of a codec that cannot open it again: the conversation ends with busy
}

// held is the answers of a conversation, or to a datagram, in their order, from the first that
// waits.
type held struct {
	answers []*answer
	size    int
	end     bool // the conversation ends with the last
}

// none reports whether no answer is held.
func (h *held) none() bool { return len(h.answers) == 0 }

func (h *held) add(a *answer) {
	h.answers = append(h.answers, a)
	h.size += a.size
}

// behind adds bytes that wait only for what is before them.
func (h *held) behind(out []byte) {
	if last := h.answers[len(h.answers)-1]; !last.waits {
		last.out = append(last.out, out...)
		last.size += len(out)
		h.size += len(out)
		return
	}
	h.add(&answer{out: bytes.Clone(out), size: len(out)})
}

// settle ends the wait of an answer, if it still waits.
func (a *answer) settle(committed bool) {
	if a.waits && !committed {
		a.out = a.busy
	}
	a.waits, a.busy = false, nil
}

// giveUp ends all waits.
func (h *held) giveUp() {
	for _, a := range h.answers {
		a.settle(false)
	}
}

// takeAnswers takes the answers that wait no longer off, and appends them to dst.
func (h *held) takeAnswers(dst []byte) []byte {
	for len(h.answers) > 0 && !h.answers[0].waits {
		dst = append(dst, h.answers[0].out...)
		h.size -= h.answers[0].size
		h.answers = h.answers[1:]
	}
	return dst
}

// held returns the answers that are held on the connection; nil if there are none.
func (t *conversation) held() *held {
	if t.details == nil || t.details.held.none() {
		return nil
	}
	return &t.details.held
}

// drop forgets the held answers, because the connection is about to be closed.
func (t *conversation) drop() {
	if t.details != nil {
		t.details.held = held{}
	}
}

// heldSize returns how many bytes are held.
func (t *conversation) heldSize() int {
	if h := t.held(); h != nil {
		return h.size
	}
	return 0
}

// ending reports whether the conversation ends with the last of the held answers.
func (t *conversation) ending() bool {
	h := t.held()
	return h != nil && h.end
}

// endsLater reports whether answers are held, and makes the last of them the end of the
// conversation.
func (t *conversation) endsLater() bool {
	h := t.held()
	if h != nil {
		h.end = true
	}
	return h != nil
}

// uncommitted reports whether the answer to a message tells of something that is not committed.
// established is whether the session was open before the message. That a heartbeat was heard need
// not be committed.
func (t *conversation) uncommitted(kind codec.Kind, established bool) bool {
	switch kind {
	case codec.Bye: // the session that could tell has ended
		return t.established && t.far() == nil
	case codec.None, codec.Beat, codec.Register, codec.Challenge:
		return t.established && !established && t.pending()
	default:
		return t.established && t.pending()
	}
}

// hold keeps back the answer to the message, which is x.out from begin on, until what it tells of
// is committed.
func (t *conversation) hold(x *exchange, begin int) {
	out := x.out[begin:]
	if len(out) == 0 {
		return
	}
	a := &answer{out: bytes.Clone(out), busy: t.busyReply(x), waits: true}
	a.size = max(len(a.out), len(a.busy))
	a.opens = t.attached && x.message.Kind == codec.Hello
	if x.udpSession != nil {
		if x.held == nil { // a datagram is answered with one
			before := bytes.Clone(x.out[x.begin:begin])
			x.held = &held{}
			x.held.add(&answer{out: before, size: len(before)})
			begin = x.begin
		}
		x.held.add(a)
		x.out = x.out[:begin]
		return
	}
	if t.details == nil {
		t.details = &details{}
	}
	t.details.held.add(a)
	x.out = x.out[:begin]
	x.gateway.holds.Add(holding{x.peer.(holder), a})
	t.bound(x)
}

// busyReply returns what the device is told in place of the answer if that comes to nothing.
func (t *conversation) busyReply(x *exchange) []byte {
	outcome := x.outcome
	x.outcome = codec.Outcome{Err: busy(), Now: x.readAt}
	out := t.codec.Reply(x.out, &x.message, &x.outcome)[len(x.out):]
	x.outcome = outcome
	return bytes.Clone(out)
}

// behind keeps x.out from begin on behind what is held.
func (t *conversation) behind(x *exchange, begin int) {
	h := x.held
	if x.udpSession == nil {
		h = t.held()
	}
	if h == nil || len(x.out) == begin {
		return
	}
	h.behind(x.out[begin:])
	x.out = x.out[:begin]
	if x.udpSession == nil {
		t.bound(x)
	}
}

// bound lets at most half of what a connection may leave unread be held. A device whose session may come
// to nothing yet is not heard any more if there is more.
func (t *conversation) bound(x *exchange) {
	h := &t.details.held
	switch {
	case h.size <= x.gateway.config.MaxOutbound/2:
	case h.answers[0].opens:
		h.end = true
	default:
		h.giveUp()
		x.out, _ = t.letGo(x.out) // after the end nothing is heard
	}
}

// letGo appends what is not to be held any longer. It reports whether that was the end of the
// conversation.
func (t *conversation) letGo(dst []byte) (out []byte, end bool) {
	h := t.held()
	if h == nil {
		return dst, false
	}
	if dst = h.takeAnswers(dst); !h.none() {
		return dst, false
	}
	end = h.end
	if t.drop(); t.details.spent() {
		t.details = nil
	}
	return dst, end
}

// spent reports whether the details hold nothing.
func (d *details) spent() bool {
	return d.name == "" && d.challenge == nil && d.behind == nil && d.held.none() && d.far == nil && d.idle == 0
}

// holder is what an answer is held for.
type holder interface {
	located

	// settled ends the wait of an answer, and writes what can be written now. It is called on the
	// event loop of where; if there is none, by the queue, and must not block.
	settled(a *answer, committed bool)
}

// holding is an answer that is held, with its holder.
type holding struct {
	holder

	answer *answer
}

// settleAll ends the waits of answers, each on the event loop of its holder.
func settleAll(all []holding, committed bool) {
	onLoops(all, func(a holding) { a.settled(a.answer, committed) })
}

var _, _ holder = (*connection)(nil), (*packet)(nil)
