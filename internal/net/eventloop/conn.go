package eventloop

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Handler is what a connection belongs to. It embeds its [Conn]. Its methods are called on the
// loop's goroutine.
type Handler interface {
	conn() *Conn

	// Traffic handles input: what it left the last time, and what was read since, which is nothing after
	// a pause. It returns how many bytes it used; the others are kept. The slice is good until it
	// returns.
	Traffic(input []byte) (used int)
	// Drained is called when the kernel has taken all that Write had kept.
	Drained()
	// Closed is called once, when the connection ends: its other end has closed it, it has failed,
	// Close was called, or the loop ends. What is written in it is tried once.
	Closed()
}

// Conn is a connection of an event loop. Embed one in its [Handler]. Its methods are called on the
// loop's goroutine, and only after [Loop.Add].
type Conn struct {
	loop  *Loop
	fd    int32 // -1 until the loop has it, and once it is closed
	state state
	kept  *kept // nil for most
}

// kept is what a connection keeps: idle ones have nothing.
type kept struct {
	input  []byte // that was read and not used
	output []byte // that the kernel has not taken yet
}

// input returns what was read and not used.
func (c *Conn) input() []byte {
	if c.kept == nil {
		return nil
	}
	return c.kept.input
}

// output returns what the kernel has not taken yet.
func (c *Conn) output() []byte {
	if c.kept == nil {
		return nil
	}
	return c.kept.output
}

// keepInput keeps input, in place of what was kept of it.
func (c *Conn) keepInput(input []byte) { c.keepBoth(input, c.output()) }

// keepOutput keeps output, in place of what was kept of it.
func (c *Conn) keepOutput(output []byte) { c.keepBoth(c.input(), output) }

func (c *Conn) keepBoth(input, output []byte) {
	switch {
	case len(input) == 0 && len(output) == 0:
		c.kept = nil
	case c.kept == nil:
		c.kept = &kept{input, output}
	default:
		*c.kept = kept{input, output}
	}
}

// state is a set of flags.
type state uint8

const (
	closing state = 1 << iota // Closed is called, or has been
	awaitsRoom
	isPaused
)

func (c *Conn) conn() *Conn { return c }

// handler returns what an open connection belongs to.
func (c *Conn) handler() Handler {
	c.loop.mu.Lock()
	defer c.loop.mu.Unlock()
	return c.loop.conns[c.fd]
}

// Add begins to serve a socket, which must not block. It takes it over, unless it returns an error:
// ErrClosed, or what epoll_ctl(2) says. It may be called by any goroutine.
func (l *Loop) Add(fd int, h Handler) error {
	c := h.conn()
	if l.table {
		return l.pass(fd, h)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.enterLocked(c); err != nil {
		return err
	}
	if err := l.serveLocked(fd, h); err != nil {
		l.dropLocked(c)
		return fmt.Errorf("eventloop: %w", err)
	}
	return nil
}

// enterLocked takes a connection's place.
func (l *Loop) enterLocked(c *Conn) error {
	switch {
	case l.over:
		return ErrClosed
	case !l.hasRoomLocked():
		return ErrFull
	}
	c.loop, c.fd = l, -1
	l.count++
	return nil
}

// serveLocked begins to serve a socket.
func (l *Loop) serveLocked(fd int, h Handler) error {
	// What TCP calls urgent is input like all else (RFC 6093): gnet's poller watches for it (EPOLLPRI), and
	// would tell of it again and again if it were kept apart.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1)
	if n := fd + 1 - len(l.conns); n > 0 {
		l.conns = append(l.conns, make([]Handler, n)...)
	}
	l.conns[fd], h.conn().fd = h, int32(fd)
	return l.poller.watch(fd)
}

// dropLocked frees a connection's place.
func (l *Loop) dropLocked(c *Conn) {
	l.count--
	if c.fd >= 0 {
		l.conns[c.fd], c.fd = nil, -1
	}
}

// handle handles an event.
func (c *Conn) handle(h Handler, events uint32) {
	if events&unix.EPOLLOUT != 0 && c.state&awaitsRoom != 0 {
		if !c.flush() {
			c.close(h)
			return
		}
		if c.Buffered() == 0 {
			h.Drained()
		}
	}
	if events&^unix.EPOLLOUT != 0 && c.fd >= 0 && c.state&isPaused == 0 {
		c.read(h)
	}
}

// read reads a slice, and has it handled.
func (c *Conn) read(h Handler) {
	l := c.loop
	kept := 0
	if c.kept != nil {
		kept = len(c.kept.input)
	}
	if cap(l.input) < kept+Slice {
		l.input = make([]byte, kept+Slice)
	}
	buffer := l.input[:kept+Slice]
	if kept > 0 {
		copy(buffer, c.kept.input)
	}
	n, err := l.poller.read(int(c.fd), buffer[kept:])
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		l.drained(c, n)
		return
	case n <= 0:
		c.close(h)
		return
	}
	c.traffic(h, buffer[:kept+n])
	if c.fd < 0 {
		return
	}
	l.drained(c, n)
	if cap(l.input) > roomy {
		l.input = make([]byte, Slice)
	}
}

// traffic has input handled, and keeps the rest.
func (c *Conn) traffic(h Handler, input []byte) {
	if used := h.Traffic(input); c.fd >= 0 && (used < len(input) || c.kept != nil) {
		c.keep(input[used:])
	}
}

// keep keeps input that was not used.
func (c *Conn) keep(rest []byte) {
	switch room := c.input(); {
	case len(rest) == 0:
		c.keepInput(nil)
	case cap(room) >= len(rest) && cap(room) <= 2*len(rest):
		c.keepInput(append(room[:0], rest...))
	default:
		c.keepInput(slices.Clip(append([]byte(nil), rest...)))
	}
}

// drained notes that n bytes of a connection were read. A slice that is not full was all there was.
func (l *Loop) drained(c *Conn, n int) {
	before, was := l.partial[c]
	left := before - n
	switch {
	case n == Slice && c.state&isPaused == 0:
		l.partial[c] = max(left, 0)
	case was:
		left = 0
		delete(l.partial, c)
	}
	if l.reached && before > 0 && left <= 0 {
		l.waits--
	}
}

// Write hands bytes to the kernel, and keeps what that does not take. It returns false if the
// connection has ended, or ends now because it failed. The loop does not bound what is kept: see
// Buffered.
func (c *Conn) Write(b []byte) bool {
	if c.fd < 0 {
		return false
	}
	if c.Buffered() == 0 {
		n, err := c.loop.poller.write(int(c.fd), b)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			c.Close()
			return false
		}
		if b = b[max(n, 0):]; len(b) == 0 {
			return true
		}
	}
	c.keepOutput(append(c.output(), b...))
	c.watch(c.state | awaitsRoom)
	return c.fd >= 0
}

// Buffered returns how many bytes the kernel has not taken yet.
func (c *Conn) Buffered() int {
	if c.kept == nil {
		return 0
	}
	return len(c.kept.output)
}

// Unread returns how many bytes wait in the socket, which the loop has not read yet.
func (c *Conn) Unread() int {
	n, _ := unix.IoctlGetInt(int(c.fd), unix.TIOCINQ)
	return n
}

// flush hands what is kept to the kernel. It returns false if the connection has failed.
func (c *Conn) flush() bool {
	for c.Buffered() > 0 {
		n, err := c.loop.poller.write(int(c.fd), c.output())
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return errors.Is(err, unix.EAGAIN)
		}
		c.keepOutput(c.output()[n:])
	}
	c.watch(c.state &^ awaitsRoom)
	return true
}

// watch changes what the kernel watches the connection for, to what its state needs. If the kernel has no
// room for another watch, the connection ends.
func (c *Conn) watch(s state) {
	if s == c.state || s&closing != 0 {
		return
	}
	was := c.state
	c.state = s
	if err := c.loop.poller.rewatch(int(c.fd), was, s); err != nil {
		c.Close()
	}
}

// IsOpen reports whether the connection has not ended. Within Closed it has not.
func (c *Conn) IsOpen() bool { return c.fd >= 0 }

// FD returns the descriptor; -1 once the connection has ended.
func (c *Conn) FD() int { return int(c.fd) }

// Close ends the connection. What the kernel has not taken is tried once more.
func (c *Conn) Close() {
	if c.fd < 0 {
		return
	}
	c.close(c.handler())
}

// Reset ends the connection, so that its other end sees an error (RST), and nothing more is sent.
func (c *Conn) Reset() {
	if c.fd < 0 {
		return
	}
	c.keepOutput(nil)
	_ = unix.SetsockoptLinger(int(c.fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	c.Close()
}

func (c *Conn) close(h Handler) {
	if c.state&closing != 0 {
		return
	}
	l := c.loop
	c.state |= closing
	_ = l.poller.Delete(int(c.fd)) // which one that is paused is not in
	h.Closed()
	if c.flush() {
		c.drain()
	}
	l.drained(c, 0)
	fd := int(c.fd)
	l.mu.Lock()
	l.dropLocked(c)
	l.mu.Unlock()
	_ = unix.Close(fd)
	c.kept = nil
}

// drain drops what waits in the socket: else the kernel resets the connection, and what was written
// last may not arrive.
func (c *Conn) drain() {
	var b [Slice]byte
	for range 16 {
		if n, err := unix.Read(int(c.fd), b[:]); n < len(b) || err != nil {
			return
		}
	}
}

// pauseStep is how exact pauses are.
const pauseStep = 50 * time.Millisecond

// pause is a connection that is paused.
type pause struct {
	conn  *Conn
	until time.Time
}

// Pause reads no more from the connection until then; after it, what was not used is shown again. What
// it sends meanwhile fills the socket, and then keeps the other end waiting. No marker waits for it.
func (c *Conn) Pause(until time.Time) {
	if c.fd < 0 || c.state&(isPaused|closing) != 0 {
		return
	}
	l := c.loop
	if len(l.paused) == 0 {
		l.lookAt(time.Now().Add(pauseStep))
	}
	l.paused = append(l.paused, pause{c, until})
	c.watch(c.state | isPaused)
}

// Rest reads no more from the connection until Again is called. No marker waits for it.
func (c *Conn) Rest() {
	if c.fd >= 0 {
		c.watch(c.state | isPaused)
	}
}

// Again shows what was not used again, at once, and ends a pause, or a rest.
func (c *Conn) Again() {
	if c.watch(c.state &^ isPaused); c.fd >= 0 {
		c.traffic(c.handler(), c.input())
	}
}

// lookAt sets when connections that are paused are looked at next; never if it is zero.
func (l *Loop) lookAt(next time.Time) {
	l.look = next
	l.poller.wakeAt(next)
}

// resume lets connections go on whose pause is over.
func (l *Loop) resume(now time.Time) {
	if l.look.After(now) {
		return
	}
	var again []*Conn
	l.paused = slices.DeleteFunc(l.paused, func(p pause) bool {
		if over := p.conn.fd < 0 || !p.until.After(now); !over {
			return false
		}
		if p.conn.fd >= 0 && p.conn.state&isPaused != 0 {
			again = append(again, p.conn)
		}
		return true
	})
	for _, c := range again {
		if c.fd < 0 || c.state&isPaused == 0 { // the one before has closed it
			continue
		}
		c.Again()
	}
	next := time.Time{}
	if len(l.paused) > 0 {
		next = now.Add(pauseStep)
	}
	l.lookAt(next)
}
