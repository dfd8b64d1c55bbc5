package gateway

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/line"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// loop is an event loop's share of the gateway. Its fields are used by the loop's goroutine only, but where said otherwise.
type loop struct {
	gateway *Gateway
	events  gnet.EventLoop // set before connections are let in, then read by all
	index   int
	out     []byte // the answers to what one read brought, written together

	_ [64]byte
}

// maxMistakes is how many wrong lines a connection may send before its HELLO.
const maxMistakes = 3

// conn is a connection. Its fields belong to its event loop.
type conn struct {
	session  liveness.Session
	loop     *loop
	gnet     gnet.Conn // nil once the connection is closed
	deadline timer.ID  // of the HELLO, then of the next input if IdleTimeout is set
	greeted  bool
	broken   bool // it broke the protocol
	mistakes uint8
}

// Replaced implements [liveness.Peer].
func (c *conn) Replaced() {
	c.loop.gateway.closer.add(c, "replaced: the device came back on another connection")
}

// Judged implements [liveness.Peer].
func (c *conn) Judged() { c.loop.gateway.closer.add(c, whySilence) }

// whySilence is said to a device that was judged; it stays connected if it speaks up before its turn to be closed comes.
const whySilence = "silence"

// open begins to serve the connection.
func (c *conn) open(gc gnet.Conn) {
	g := c.loop.gateway
	c.gnet = gc
	_ = unix.SetsockoptInt(gc.Fd(), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(g.config.UserTimeout.Milliseconds()))
	c.deadline, _ = g.timers.AfterFunc(g.config.HandshakeTimeout, func() {
		g.counts.handshakeTimeouts.Add(1)
		g.closer.addError(c, &line.Error{
			Code: line.Timeout,
			Text: fmt.Sprintf("no HELLO within %v; write HELLO <id> ttl=60s", g.config.HandshakeTimeout),
		})
	})
}

// closed ends what the connection held. The device's silence, if it is one, begins here.
func (c *conn) closed() {
	g := c.loop.gateway
	g.timers.Cancel(c.deadline)
	if g.closing.Load() {
		_, _ = c.gnet.Write(line.AppendBye(nil, "shutdown"))
	} else if c.greeted {
		why := liveness.Closed
		if c.broken {
			why = liveness.Protocol
		}
		c.session.Close(g.now(), why)
	}
	g.leave(remoteAddr(c.gnet.RemoteAddr()))
	c.gnet = nil
}

// traffic handles what came in, whole lines of it, and writes the answers together.
func (c *conn) traffic() gnet.Action {
	g := c.loop.gateway
	input, _ := c.gnet.Peek(-1)
	if len(input) == 0 {
		return gnet.None
	}
	now := g.now()
	c.loop.out = c.loop.out[:0]
	rest, action := input, gnet.None
	for action == gnet.None {
		text, after, ok := line.Split(rest)
		if !ok {
			if len(rest) > g.config.MaxLine {
				action = c.fail(&line.Error{
					Code: line.TooLong,
					Text: fmt.Sprintf("a line has at most %d bytes", g.config.MaxLine),
				})
			}
			break
		}
		action = c.line(text, now)
		rest = after
	}
	if c.greeted && c.deadline != 0 {
		g.timers.Touch(c.deadline, g.timers.Now())
	}
	if n := len(input) - len(rest); n > 0 { // Discard(0) would drop all
		_, _ = c.gnet.Discard(n)
	}
	if !c.flush() {
		return gnet.None // closed already
	}
	return action
}

// flush writes the answers, and says whether the connection is still there.
func (c *conn) flush() bool {
	out := c.loop.out
	if len(out) == 0 {
		return true
	}
	g := c.loop.gateway
	if c.gnet.OutboundBuffered()+len(out) > g.config.MaxOutbound {
		g.counts.slowReaders.Add(1)
		_ = c.gnet.SetLinger(0)
		_ = c.loop.events.Close(c.gnet)
		return false
	}
	_, _ = c.gnet.Write(out) // if it fails, closed has been called
	if cap(out) > 64<<10 {
		c.loop.out = nil
	}
	return c.gnet != nil
}

// line handles one line.
func (c *conn) line(text []byte, now time.Duration) gnet.Action {
	counts := &c.loop.gateway.counts.loops[c.loop.index]
	counts.lines.Store(counts.lines.Load() + 1) // only this loop writes it
	if len(text) > c.loop.gateway.config.MaxLine {
		return c.fail(&line.Error{
			Code: line.TooLong,
			Text: fmt.Sprintf("a line has at most %d bytes", c.loop.gateway.config.MaxLine),
		})
	}
	m, mistake := line.Parse(text)
	if !c.greeted {
		return c.greet(text, m, mistake, now)
	}
	if mistake != nil {
		c.mistake(mistake)
		c.session.Beat(now)
		return gnet.None
	}
	switch m.Kind {
	case line.Beat:
		c.session.Beat(now)
	case line.Ping:
		c.session.Beat(now)
		c.loop.out = line.AppendPong(c.loop.out, m.Text)
	case line.Hello:
		c.session.Beat(now)
		return c.helloAgain(m, now)
	case line.TTL:
		c.repace(m.Duration, now)
	case line.Sleep:
		granted, err := c.session.Sleep(now, m.Duration)
		if c.accepted(err) {
			c.loop.out = line.AppendSleep(c.loop.out, granted)
		}
	case line.Fail:
		if c.accepted(c.session.Fail(now, string(m.Text))) {
			c.loop.out = append(c.loop.out, "OK\n"...)
		}
	case line.Bye:
		c.session.Bye(now)
		c.loop.out = line.AppendBye(c.loop.out, "")
		return gnet.Close
	}
	return gnet.None
}

// greet handles a line before the HELLO.
func (c *conn) greet(text []byte, m line.Message, mistake *line.Error, now time.Duration) gnet.Action {
	switch {
	case !line.IsText(text):
		return c.fail(&line.Error{Code: line.NotText, Text: "this is the line protocol; write HELLO <id> ttl=60s"})
	case mistake == nil && m.Kind == line.Bye:
		return gnet.Close
	case mistake == nil && m.Kind != line.Hello:
		mistake = &line.Error{Code: line.HelloFirst, Text: "write HELLO <id> ttl=60s before anything else"}
	}
	if mistake == nil {
		mistake = c.hello(m, now)
	}
	if mistake == nil {
		return gnet.None
	}
	switch mistake.Code {
	case line.StaleEpoch, line.Unauthorized, line.Full, line.Busy:
		return c.fail(mistake)
	default:
		c.mistakes++
		if c.mistakes >= maxMistakes {
			return c.fail(mistake)
		}
		c.mistake(mistake)
		return gnet.None
	}
}

// hello opens the session.
func (c *conn) hello(m line.Message, now time.Duration) *line.Error {
	g := c.loop.gateway
	if g.config.Token != "" && subtle.ConstantTimeCompare(m.Token, []byte(g.config.Token)) != 1 {
		g.counts.unauthorized.Add(1)
		return &line.Error{Code: line.Unauthorized, Text: "wrong or missing token; write HELLO <id> <token> ttl=60s"}
	}
	// Open copies the id if it keeps it.
	id := unsafe.String(unsafe.SliceData(m.ID), len(m.ID))
	hello := liveness.Hello{Epoch: m.Epoch, Announced: liveness.Policy{Timeout: m.Duration}}
	welcome, err := g.source.Open(&c.session, id, hello, c, now)
	switch {
	case errors.Is(err, liveness.ErrInvalidID):
		return &line.Error{Code: line.BadID, Text: "an id has 1 to 128 bytes of UTF-8 without spaces and control characters"}
	case errors.Is(err, liveness.ErrStaleEpoch):
		return &line.Error{Code: line.StaleEpoch, Text: "the device has had a later epoch; count up, or leave epoch= out"}
	case errors.Is(err, liveness.ErrBusy):
		return busy()
	case errors.Is(err, liveness.ErrFull):
		return &line.Error{Code: line.Full, Text: "the registry holds as many devices as it may"}
	case err != nil:
		return &line.Error{Code: line.BadHello, Text: err.Error()}
	}
	c.greeted = true
	g.timers.Cancel(c.deadline)
	c.deadline = 0
	if idle := g.config.IdleTimeout; idle > 0 {
		c.deadline, _ = g.timers.AfterFunc(idle, func() {
			g.counts.idleTimeouts.Add(1)
			g.closer.add(c, "idle")
		})
	}
	c.loop.out = line.AppendOK(c.loop.out, welcome.Epoch, welcome.Policy.Timeout)
	return nil
}

// helloAgain handles a HELLO on an open session: the same device may greet again, another one may not.
func (c *conn) helloAgain(m line.Message, now time.Duration) gnet.Action {
	if string(m.ID) != c.session.ID() {
		c.mistake(&line.Error{Code: line.HelloAgain, Text: "this connection is that of another device; open one for each"})
		return gnet.None
	}
	mistake := c.hello(m, now)
	switch {
	case mistake == nil:
	case mistake.Code == line.Busy:
		c.mistake(mistake)
	default:
		return c.fail(mistake)
	}
	return gnet.None
}

func (c *conn) repace(ttl, now time.Duration) {
	p, err := c.session.Repace(now, liveness.Policy{Timeout: ttl})
	if c.accepted(err) {
		c.loop.out = line.AppendTTL(c.loop.out, p.Timeout)
	}
}

// accepted says whether the device is to be told that what it said holds; if not, it answers otherwise.
func (c *conn) accepted(err error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, liveness.ErrReplaced): // the closer tells it
	case errors.Is(err, liveness.ErrBusy):
		c.mistake(busy())
	default:
		c.mistake(&line.Error{Code: line.BadTTL, Text: err.Error()})
	}
	return false
}

// busy is what a device is told while events cannot be stored.
func busy() *line.Error {
	return &line.Error{Code: line.Busy, Text: "the server cannot store more at the moment; heartbeats count, say this again in a while"}
}

// mistake answers a wrong line.
func (c *conn) mistake(e *line.Error) {
	c.loop.gateway.counts.mistakes.Add(1)
	c.loop.out = line.AppendError(c.loop.out, e)
}

// fail answers a wrong line and ends the connection.
func (c *conn) fail(e *line.Error) gnet.Action {
	c.broken = true
	c.loop.gateway.counts.broken.Add(1)
	c.mistake(e)
	return gnet.Close
}
