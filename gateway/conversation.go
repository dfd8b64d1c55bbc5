package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/remote"
	"github.com/holter-iot/holter/liveness"
)

const (
	// maxMistakes is how many wrong messages a device may send before its hello, and maxNoise how
	// many messages in a row may mean nothing.
	maxMistakes = 3
	maxNoise    = 16
	// maxSniff is how many bytes are looked at to find out which protocol a connection speaks.
	maxSniff = 64
	// mostTurn is how long the messages of a connection are handled at a time that may each be for many
	// others, and for how long connections are written to that were woken. Then the event loop looks for
	// other input. A connection has up to inRow turns before those that were woken are written to: the
	// more messages are written at once, the less each costs.
	mostTurn = 500 * time.Microsecond
	inRow    = 32
)

// conversation is the state of a device's protocol and session, whatever transport carries it. One
// goroutine uses it at a time.
type conversation struct {
	session     liveness.Session
	codec       codec.Codec // nil until the first bytes have said which protocol it is
	details     *details    // nil for most
	established bool
	broken      bool // the device broke the protocol
	guest       bool // the client is no device, and has no session
	attached    bool // the codec has its wire
	released    bool // the gateway closes the connection for its own sake
	wrong       uint8
	noise       uint8
	spoken      uint8  // which of the listener's protocols it is, once there is a codec
	revision    uint32 // of what the device has shown
}

// details are what few conversations need, kept apart to keep idle connections small.
type details struct {
	name      string         // that a certificate has proved; "" if none has
	challenge *challenge     // nil unless one is open
	behind    *behind        // nil for one that comes through no proxy
	held      held           // empty unless an answer on a connection waits
	far       remote.Session // nil unless another process judges the device
	pending   *pendingReply  // nil unless that, or the codec, is asked for something
	idle      time.Duration  // how long a guest may be silent; 0 for any time
}

// exchange handles input: it holds the context of the conversation that goes on, and buffers that
// are used again. Each goroutine that reads has its own.
type exchange struct {
	gateway         *Gateway
	listener        *listener
	peer            liveness.Peer
	sender          sender
	counts          *loopCounters
	readAt          time.Time     // when what is being handled was read
	readAtListening time.Duration // the listening time at readAt

	budget int  // how many messages may be handled now
	fair   bool // its messages may each be for many others, whose event loop this is
	yields bool // the rest is to be handled when others had their turn,
	begun  bool // and the last message belongs to the rest, see [codec.Live.Continue]

	udpSession *udpSession // whose datagram it is; nil on connections
	admitted   bool        // by the guard, before
	begin      int         // in out, of the answers to that datagram
	held       *held       // all of them; nil unless one waits

	message codec.Message
	outcome codec.Outcome
	out     []byte // the answers
}

// sender is what an exchange has its input from.
type sender interface {
	// address returns the device's address, or that of the proxy which it comes through.
	address() netip.Addr
}

// address returns the sender's address.
func (x *exchange) address() netip.Addr { return x.sender.address() }

// hear handles input, as far as x.budget goes. It returns the rest, which begins with an incomplete
// message if there is budget left, and whether the conversation is to be ended once x.out, and what is
// held, is written.
func (t *conversation) hear(x *exchange, input []byte) (rest []byte, end bool) {
	if t.details != nil && t.ending() {
		return nil, true
	}
	for rest = input; len(rest) > 0 && !end && x.budget > 0 && (t.details == nil || !t.awaitsReply()) && !x.yields; x.budget-- {
		if t.codec == nil {
			protocol, err := x.listener.sniff(rest)
			if err != nil {
				return rest, t.fail(x, err)
			}
			if protocol == nil {
				return rest, false
			}
			t.codec, t.spoken = protocol.Codec(), x.listener.index(protocol)
		}
		x.message = codec.Message{}
		n, err := t.codec.Next(rest, &x.message)
		switch {
		case err != nil:
			return rest, t.fail(x, errorOf(err))
		case n == 0 && len(rest) >= t.maxMessage():
			return rest, t.fail(x, &codec.Error{Code: codec.TooLong, Text: fmt.Sprintf("a message has less than %d bytes", t.maxMessage())})
		case n == 0:
			return rest, false
		}
		rest = rest[n:]
		var done bool
		if done, end = t.onlyBeats(x); done {
			continue
		}
		end = t.message(x)
		x.begun = x.outcome.Unfinished
		for x.begun && !(x.fair && time.Since(x.readAt) > mostTurn) {
			x.begun = t.codec.(codec.Live).Continue()
		}
		x.yields = x.begun || x.fair && time.Since(x.readAt) > mostTurn
	}
	return rest, end
}

// onlyBeats handles and answers a message that is a heartbeat and nothing else, as most are, of a device for
// which nothing is kept here but its session, as for most. It returns false, and does nothing, for all others.
func (t *conversation) onlyBeats(x *exchange) (done, end bool) {
	m := &x.message
	switch {
	case t.details != nil, !t.established, t.guest, t.attached, x.udpSession != nil: // a judge elsewhere, answers that are held, MQTT, datagrams
		return false, false
	case m.Kind != codec.Beat, len(m.ID) > 0, m.Err != nil, m.Odd != "": // it is to be compared, refused or counted
		return false, false
	case !t.session.Beat(x.readAtListening):
		return false, false
	}
	x.counts.messages.Store(x.counts.messages.Load() + 1) // only this goroutine writes it
	t.noise = 0
	x.outcome = codec.Outcome{Now: x.readAt}
	x.out = t.codec.Reply(x.out, m, &x.outcome)
	return true, x.outcome.Broken != nil && t.fail(x, x.outcome.Broken)
}

// maxMessage returns how long the device's messages may be.
func (t *conversation) maxMessage() int {
	if long, ok := t.codec.(codec.Long); ok {
		return long.MaxMessage()
	}
	return codec.MaxMessage
}

func errorOf(err error) *codec.Error {
	if e, ok := errors.AsType[*codec.Error](err); ok {
		return e
	}
	return &codec.Error{Code: codec.BadMessage, Text: err.Error()}
}

// message does what one message means, and answers it.
func (t *conversation) message(x *exchange) (end bool) {
	m := &x.message
	established := t.established
	x.counts.messages.Store(x.counts.messages.Load() + 1) // only this goroutine writes it
	if m.Odd != "" {
		x.gateway.odd.count(Oddity{t.protocol(x.listener), m.Odd})
	}
	if m.Kind != codec.None {
		t.noise = 0
	} else if m.Odd != "" {
		if t.noise++; t.noise > maxNoise {
			return t.fail(x, &codec.Error{Code: codec.Noise, Text: "too many meaningless messages in a row"})
		}
	}
	x.outcome = codec.Outcome{Err: m.Err, Now: x.readAt}
	if t.established {
		end = t.inSession(x)
	} else {
		end = t.beforeHello(x)
	}
	if t.awaitsReply() { // it is answered when the judge has answered
		return false
	}
	return t.answer(x, established, end)
}

// answer answers the message that was done, and reports whether that ends the conversation.
// established is whether the session was open before the message.
func (t *conversation) answer(x *exchange, established, end bool) bool {
	begin := len(x.out)
	t.reply(x, end)
	if x.outcome.Err == nil && t.uncommitted(x.message.Kind, established) {
		t.hold(x, begin)
	} else {
		t.behind(x, begin)
	}
	if x.outcome.Broken != nil {
		return t.fail(x, x.outcome.Broken)
	}
	return end
}

// epoch returns the epoch of the open session.
func (t *conversation) epoch() uint64 {
	if far := t.far(); far != nil {
		return far.Epoch()
	}
	return t.session.Epoch()
}

// reply answers the message.
func (t *conversation) reply(x *exchange, end bool) {
	if x.outcome.Err != nil {
		x.gateway.counts.mistakes.Add(1)
		if end && t.broken {
			x.gateway.counts.broken.Add(1)
		}
	}
	x.out = t.codec.Reply(x.out, &x.message, &x.outcome)
}

// inSession handles a message on an open session.
func (t *conversation) inSession(x *exchange) (end bool) {
	m, o := &x.message, &x.outcome
	if len(m.ID) > 0 && string(m.ID) != t.id() {
		return t.other(x)
	}
	if m.Kind == codec.None {
		return false
	}
	if m.Acknowledged != 0 && x.udpSession != nil {
		x.udpSession.acknowledgedLocked(m.Acknowledged)
	}
	if o.Err != nil || m.Kind == codec.Beat {
		if !t.beat(x) {
			o.Err = t.refusal(liveness.ErrReplaced)
		}
		return false
	}
	switch m.Kind {
	case codec.Hello:
		t.beat(x)
		return t.again(x)
	case codec.Register:
		t.beat(x)
		t.register(x)
	case codec.Repace, codec.Sleep, codec.Fail, codec.Bye:
		return t.signal(x)
	case codec.Leave:
		t.beat(x)
		return true
	case codec.Challenge, codec.Proof:
		t.beat(x)
		o.Err = &codec.Error{Code: codec.HelloAgain, Text: "the session is open already"}
	case codec.None, codec.Beat:
	}
	return false
}

// other refuses a message of another device. If the next messages need not say whose they are, it is not known any more, and the
// conversation ends.
func (t *conversation) other(x *exchange) (end bool) {
	x.outcome.Err = &codec.Error{Code: codec.HelloAgain, Text: "another device uses this connection; open one for each"}
	if _, named := t.codec.(codec.Named); named || x.message.Kind != codec.Hello || x.udpSession != nil {
		return false
	}
	t.tellRefused(x, string(x.message.ID), sharedLine, "")
	t.broken = true
	return true
}

// beat records a heartbeat on the open session.
func (t *conversation) beat(x *exchange) bool {
	if t.guest {
		return true
	}
	if far := t.far(); far != nil {
		return far.Beat(x.elapsed())
	}
	return t.session.Beat(x.readAtListening)
}

// signal does what a message means of which the device's judge must know.
func (t *conversation) signal(x *exchange) (end bool) {
	m, o := &x.message, &x.outcome
	switch {
	case t.guest:
		return m.Kind == codec.Bye
	case t.far() != nil:
		t.askSignal(x, m.Kind)
		return false
	}
	switch m.Kind {
	case codec.Repace:
		p, err := t.session.UpdatePolicy(x.readAtListening, liveness.Policy{Timeout: m.Timeout, Interval: m.Interval})
		o.Timeout, o.Interval, o.Err = p.Timeout, p.Interval, t.refusal(err)
	case codec.Sleep:
		granted, err := t.session.Sleep(x.readAtListening, m.Duration)
		o.Granted, o.Err = granted, t.refusal(err)
	case codec.Fail:
		o.Err = t.refusal(t.session.Fail(x.readAtListening, string(m.Text)))
	case codec.Bye:
		t.session.Bye(x.readAtListening)
		return true
	default:
	}
	return false
}

// again handles a hello on an open session: the same device may say hello again.
func (t *conversation) again(x *exchange) (end bool) {
	if v := x.udpSession; v != nil {
		if done, end := v.renewLocked(x); done {
			return end
		}
	}
	t.hello(x)
	return t.welcomedAgain(x)
}

// welcomedAgain reports whether the answer to a hello on an open session ends the conversation.
func (t *conversation) welcomedAgain(x *exchange) (end bool) {
	if err := x.outcome.Err; err != nil && err.Code != codec.Busy {
		t.broken = true
	}
	return t.broken
}

// refusal returns what a device is told of an error of its session. One that was replaced is told
// when its connection is closed.
func (t *conversation) refusal(err error) *codec.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, liveness.ErrReplaced):
		return replaced()
	case errors.Is(err, liveness.ErrBusy):
		return busy()
	default:
		return &codec.Error{Code: codec.BadTTL, Text: err.Error()}
	}
}

// fail ends the conversation because of wrong input.
func (t *conversation) fail(x *exchange, e *codec.Error) (end bool) {
	t.broken = true
	x.gateway.counts.broken.Add(1)
	x.gateway.counts.mistakes.Add(1)
	begin := len(x.out)
	x.out = t.goodbye(x.listener, x.out, "", e)
	t.behind(x, begin)
	return true
}

// goodbye appends what the device is told before the connection is closed.
func (t *conversation) goodbye(at *listener, dst []byte, why string, err *codec.Error) []byte {
	if t.codec != nil {
		return t.codec.Goodbye(dst, why, err)
	}
	return at.goodbye(dst, why, err)
}

// closeSession tells the session that its connection has ended.
func (c *connection) closeSession() {
	why := liveness.Closed
	switch {
	case c.hasWill():
		why = liveness.Will
	case c.broken:
		why = liveness.Protocol
	}
	switch {
	case c.far() != nil:
		c.far().Close(c.gateway.elapsed(), why)
	case c.established && !c.guest:
		c.session.Close(c.listener.source.Time(time.Now()), why)
	}
}
