package websocket

import (
	"bytes"
	"cmp"

	"github.com/holter-iot/holter/gateway/codec"
)

// conn is the codec of a connection. What it does not do itself, the inner one does.
type conn struct {
	Inner

	protocol  *Protocol
	upgrade   *upgrade // the answer to the request; nil before it was granted
	upgraded  bool     // the request was answered
	inMessage bool     // the frames are parts of a message, of which more are to come
	inFrame   bool     // of a message
	carries   bool     // Next has taken a message of the inner protocol
	frame     frame
	status    int    // with which the connection ends; 0 if it is not broken
	part      []byte // of a message of the inner protocol
	taken     int    // how much of that Next has taken
}

// keptRoom is how much room for a message is kept between two.
const keptRoom = 4 << 10

// Next implements [codec.Codec].
func (c *conn) Next(input []byte, m *codec.Message) (n int, err error) {
	c.carries = false
	if c.upgrade == nil {
		return c.request(input)
	}
	c.upgraded = true
	if c.part = c.part[c.taken:]; c.taken > 0 && cap(c.part) > keptRoom {
		c.part = bytes.Clone(c.part)
	}
	c.taken = 0
	if c.inFrame {
		return c.payload(input, 0, m)
	}
	f, n, err := c.parseFrame(input)
	switch {
	case n == 0:
		return 0, err
	case f.op >= opClose:
		return c.control(f, input, n, m), nil
	}
	c.frame, c.inMessage = f, !f.fin
	c.inFrame = f.size > 0
	return c.payload(input, n, m)
}

// control takes a control frame off input, whose head has n bytes.
func (c *conn) control(f frame, input []byte, n int, m *codec.Message) int {
	end := n + int(f.size)
	if len(input) < end {
		return 0
	}
	m.Note, m.Text = uint64(f.op), f.unmask(nil, input[n:end])
	if f.op == opClose {
		m.Kind = codec.Leave
	}
	return end
}

// firstPart is how much of a frame's payload is unmasked at first. Most messages are shorter.
const firstPart = 256

// payload takes a part of a frame's payload off input, which begins at n: as much as a message of the
// inner protocol has, or all that is there. A frame may have many messages: no more of it is unmasked
// than about twice what the next one has.
func (c *conn) payload(input []byte, n int, m *codec.Message) (int, error) {
	some := input[n:]
	some = some[:min(uint64(len(some)), c.frame.size)]
	before, used, taken := len(c.part), 0, 0
	for length := firstPart; ; length *= 2 {
		used = min(length, len(some))
		c.part = c.frame.unmask(c.part[:before], some[:used])
		var err error
		if taken, err = c.Inner.Next(c.part, m); err != nil {
			return 0, err
		}
		if taken > 0 || used == len(some) {
			break
		}
	}
	if taken > 0 {
		c.carries = true
		c.part, c.taken = c.part[:taken], taken
		used = taken - before
	}
	c.frame.takeBytes(used)
	c.inFrame = c.frame.size > 0
	return n + used, nil
}

// Reply implements [codec.Codec].
func (c *conn) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	switch {
	case !c.upgraded:
		return c.upgrade.append(dst)
	case c.carries || m.Kind == codec.Hello: // which may be answered later
		return wrap(c.Inner.Reply(dst, m, o), len(dst))
	case m.Kind == codec.Leave:
		return appendClose(dst, statusNormal)
	case m.Note == opPing:
		return append(appendHead(dst, opPong, len(m.Text)), m.Text...)
	}
	return dst
}

// Goodbye implements [codec.Codec].
func (c *conn) Goodbye(dst []byte, why string, err *codec.Error) []byte {
	switch {
	case c.upgrade == nil && err == nil:
		return dst
	case c.upgrade == nil:
		return appendRejection(dst, cmp.Or(c.status, 400), err.Text)
	}
	dst = wrap(c.Inner.Goodbye(dst, why, err), len(dst))
	return appendClose(dst, cmp.Or(c.status, statusNormal))
}

// Pump implements [codec.Live].
func (c *conn) Pump(dst []byte, room int) (out []byte, more bool) {
	begin := len(dst)
	out, more = c.Inner.Pump(dst, room)
	return wrap(out, begin), more
}

// MaxMessage implements [codec.Long]. Messages are not kept whole in the input.
func (c *conn) MaxMessage() int { return max(c.Inner.MaxMessage(), maxRequest+1) }

// Authenticate implements [codec.Authenticator]. A reverse proxy need not say that it is one.
func (c *conn) Authenticate(m *codec.Message, from codec.Origin) (codec.Admission, func() codec.Admission) {
	from.Relayed = true
	return c.Inner.Authenticate(m, from)
}

// Held implements [codec.Holder].
func (c *conn) Held() int { return len(c.part) }
