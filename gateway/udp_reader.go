package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
)

// reader reads a socket. Its fields are used by its goroutine only, unless said otherwise.
type reader struct {
	udp       *udp
	listener  *listener
	protocols []codec.Packets // the listener's
	conn      *net.UDPConn
	raw       syscall.RawConn // the conn's; safe for concurrent use
	part      int             // of the source
	lanes     *lanes          // nil if the listener has none
	holds     int             // datagrams in the socket, at most
	drops     uint32          // of the socket, as the clock has seen them; for the clock alone
	exchange  exchange
	batch     *batch
	failed    error // of the latest system call
	current   int   // the datagram of the batch that is handled

	asked atomic.Int64  // listening time that is to be reached; written by the clock
	turns atomic.Uint64 // times that the socket was read, or found empty

	// A socket is a queue, so whoever has read as many datagrams as it can hold has read all that
	// were in it before.
	reached int64  // listening time
	noted   int64  // of asked,
	read    uint64 // datagrams,
	passed  uint64 // and how many there will be when noted is reached
}

// run reads until ctx is done.
func (r *reader) run(ctx context.Context) error {
	receive := func(fd uintptr) bool { return r.receive(fd) }
	send := func(fd uintptr) bool {
		if lost := r.batch.send(fd, r.exchange.out); lost > 0 {
			r.udp.counts.unsent.Add(uint64(lost))
		}
		return true
	}
	for ctx.Err() == nil {
		err := r.raw.Read(receive)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // woken
			_ = r.conn.SetReadDeadline(time.Time{})
			continue
		case err != nil:
			return fmt.Errorf("gateway: read datagrams: %w", err)
		case r.failed != nil:
			r.pause(ctx)
			continue
		}
		r.handle()
		if r.batch.answers > 0 {
			if err := r.raw.Write(send); err != nil {
				return fmt.Errorf("gateway: write datagrams: %w", err)
			}
		}
		runtime.Gosched() // else a flood would keep all others waiting until the scheduler's time slice is over
	}
	return nil
}

// wake makes the reader look at its socket, and whether ctx is done.
func (r *reader) wake() { _ = r.conn.SetReadDeadline(time.Unix(1, 0)) }

// receive fills the batch; it returns false if the socket is empty.
func (r *reader) receive(fd uintptr) bool {
	asked := r.asked.Load()
	r.failed = r.batch.receive(fd)
	if r.failed == nil || errors.Is(r.failed, unix.EAGAIN) {
		r.turns.Add(1)
	}
	if errors.Is(r.failed, unix.EAGAIN) {
		r.reach(asked)
		return false
	}
	return true
}

// reach tells the source that all that had come before a listening time has been handled.
func (r *reader) reach(asked int64) {
	if asked > r.reached {
		r.reached = asked
		r.listener.source.Watermark(r.part, time.Duration(asked))
	}
}

// pause waits after an unexpected error.
func (r *reader) pause(ctx context.Context) {
	if n := r.udp.counts.failed.Add(1); n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th … time
		r.udp.gateway.log.Warn("cannot read datagrams; retrying", "error", os.NewSyscallError("recvmmsg", r.failed), "times", n)
	}
	select {
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
	}
}

// handle handles a batch, and leaves the answers in it.
func (r *reader) handle() {
	x := &r.exchange
	x.readAt = time.Now()
	x.readAtListening = r.listener.source.Time(x.readAt)
	if x.out = x.out[:0]; cap(x.out) > 1<<20 {
		x.out = nil
	}
	for r.current = range r.batch.read {
		r.one(r.batch.datagram(r.current))
	}
	r.udp.counts.datagrams.Add(uint64(r.batch.read))
	r.read += uint64(r.batch.read)
	if asked := r.asked.Load(); asked != r.noted {
		r.noted, r.passed = asked, r.read+uint64(r.holds)
	} else if r.read >= r.passed {
		r.reach(asked)
	}
}

// one handles a datagram, and keeps the answer to it if there may be one. A panic in a codec costs
// this datagram only.
func (r *reader) one(input []byte) {
	x := &r.exchange
	begin := len(x.out)
	defer func() {
		if v := recover(); v != nil {
			x.out = x.out[:begin]
			r.udp.gateway.counts.panics.Add(1)
			r.udp.gateway.log.Error("a datagram made the gateway panic; it is dropped", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	x.begin, x.held = begin, nil
	proven := r.datagram(input)
	if x.held != nil {
		r.later(len(input), proven)
	}
	if answer := len(x.out) - begin; answer == 0 || !proven && !r.udp.mayAnswer(x, answer, len(input)) {
		x.out = x.out[:begin]
		return
	}
	r.batch.answer(r.current, begin)
}

// mayAnswer reports whether somebody who has proved nothing is answered, and counts if not: neither with
// more bytes than were sent, nor with too many errors.
func (u *udp) mayAnswer(x *exchange, answer, room int) bool {
	if answer <= room && (x.outcome.Err == nil || u.errors.allow(x.address(), x.readAt)) {
		return true
	}
	u.counts.withheld.Add(1)
	return false
}

// address returns where the datagram that is handled claims to come from.
func (r *reader) address() netip.Addr { return r.batch.from[r.current].address() }

// datagram does what a datagram means, and reports whether it has proved which device sent it.
func (r *reader) datagram(input []byte) (proven bool) {
	x := &r.exchange
	m := &x.message
	c, spoken, n, err := r.first(input)
	if err != nil {
		r.udp.counts.garbage.Add(1)
		r.refuse(c, err, n > 0)
		return false
	}
	id := unsafe.String(unsafe.SliceData(m.ID), len(m.ID)) // what keeps it copies it
	guard := r.udp.gateway.config.Guard
	if !guard.Admit(id, m.Token) {
		r.udp.gateway.counts.unauthorized.Add(1)
		r.udp.gateway.tell(refusal{id: strings.Clone(clipped(id)), address: r.address(), protocol: r.listener.Protocols[spoken].Name(), reason: wrongToken})
		r.refuse(c, &codec.Error{Code: codec.Unauthorized, Text: "wrong or missing token; in the line protocol: HELLO <id> <token> ttl=60s"}, true)
		return false
	}
	proven = len(m.Token) > 0 && !guard.Admit(id, nil)
	since := x.readAt.Sub(r.udp.gateway.began)
	v, e := r.enter(id, since, proven)
	if e != nil {
		r.refuse(c, e, true)
		return proven
	}
	defer v.mu.Unlock()
	if x.budget = v.allowedLocked(r, since); x.budget == 0 {
		return proven
	}
	if v.conversation.awaitsReply() {
		v.waitLocked(r, spoken, input, proven)
		return proven
	}
	v.conversation.codec, v.conversation.spoken, v.reader = c, spoken, r
	v.cameLocked(placeOf(&r.batch.from[r.current]))
	if proven {
		if v.home == nil {
			v.home = new(endpoint)
		}
		*v.home = r.batch.from[r.current]
		v.home.anyInterface()
	} else {
		v.home = nil // the device does not need a token any more
	}
	v.asks.Store(proven && v.conversation.canProbe())
	may := x.budget
	if rest := r.converse(v, input[n:]); v.conversation.awaitsReply() {
		v.keepLocked(r, rest, len(input), proven)
	}
	v.intake.spend(r.listener, since, may-x.budget, len(input))
	return proven
}

// first finds out which protocol a datagram is of, and takes its first message. Of several
// protocols it is the one whose message names a device; if there is none, the likeliest answers.
// After an error n is above 0 if there is a message that can be answered; the codec may be nil.
func (r *reader) first(input []byte) (c codec.Codec, spoken uint8, n int, err *codec.Error) {
	m := &r.exchange.message
	likely, meant := codec.No, 0
	for i, p := range r.protocols {
		c, *m = p.PacketCodec(), codec.Message{}
		taken, failed := c.Next(input, m)
		if failed == nil && taken > 0 && len(m.ID) > 0 {
			return c, uint8(i), taken, r.allowed(m)
		}
		if guess := r.guess(i, input); guess > likely {
			likely, meant = guess, i
		}
	}
	*m = codec.Message{}
	if likely == codec.No {
		return nil, 0, 0, &codec.Error{Code: codec.NotSpoken, Text: "unknown protocol; this port speaks: " + r.listener.names()}
	}
	c, spoken = r.protocols[meant].PacketCodec(), uint8(meant)
	switch n, failed := c.Next(input, m); {
	case failed != nil:
		return c, spoken, 0, errorOf(failed)
	case n == 0:
		return c, spoken, 0, &codec.Error{Code: codec.BadMessage, Text: "the datagram ends within its first message"}
	default:
		return c, spoken, n, &codec.Error{Code: codec.HelloFirst, Text: "each datagram must begin with its device"}
	}
}

// guess returns whether a datagram is of the listener's i-th protocol.
func (r *reader) guess(i int, input []byte) codec.Guess {
	switch {
	case len(r.protocols) == 1:
		return codec.Yes
	case len(input) == 0:
		return codec.No
	}
	return r.listener.Protocols[i].Sniff(input)
}

// allowed refuses first messages that make sense only if the next datagram comes from the same
// device, which is not certain.
func (r *reader) allowed(m *codec.Message) *codec.Error {
	switch m.Kind {
	case codec.None, codec.Register, codec.Challenge, codec.Proof:
		return &codec.Error{Code: codec.BadHello, Text: "datagrams must show the token; there is no challenge and no registration"}
	default:
		return nil
	}
}

// refuse answers a datagram that is not handled.
func (r *reader) refuse(c codec.Codec, err *codec.Error, reply bool) {
	x := &r.exchange
	r.udp.gateway.counts.mistakes.Add(1)
	x.outcome = codec.Outcome{Err: err, Now: x.readAt}
	switch {
	case c == nil:
	case reply:
		x.out = c.Reply(x.out, &x.message, &x.outcome)
	default:
		x.out = c.Goodbye(x.out, "", err)
	}
}

// enter returns the device with an id, with its lock held. A device that is new is not welcomed
// yet.
func (r *reader) enter(id string, since time.Duration, proven bool) (*udpSession, *codec.Error) {
	u := r.udp
	for {
		v := u.table.find(id, since, proven)
		if v == nil {
			if r.exchange.message.Err != nil {
				return nil, r.exchange.message.Err
			}
			if v = u.table.enter(u, id, since, proven); v == nil {
				u.gateway.counts.refusedFull.Add(1)
				return nil, &codec.Error{Code: codec.Full, Text: "the gateway has reached its limit of devices; try again later"}
			}
		}
		v.mu.Lock()
		if !v.gone {
			return v, nil
		}
		v.mu.Unlock() // it left in between
	}
}

// converse handles the messages of a datagram: the first, and the rest as far as no judge is asked.
func (r *reader) converse(v *udpSession, rest []byte) (left []byte) {
	x, t := &r.exchange, &v.conversation
	t.broken, t.wrong, t.noise = false, 0, 0
	x.peer, x.udpSession, x.admitted = v, v, true
	leaves := true
	defer func() { // also if a codec panics
		if leaves {
			v.leaveLocked()
		}
	}()
	if !v.open() {
		v.greetLocked()
		v.said.Timeout, v.said.Interval = x.message.Timeout, x.message.Interval
	}
	end := t.message(x)
	x.budget--
	if !end && t.established && len(rest) > 0 && !t.awaitsReply() {
		if rest, end = t.hear(x, rest); x.budget == 0 && len(rest) > 0 && !t.awaitsReply() {
			v.floods(r.address())
		}
	}
	if t.awaitsReply() {
		leaves = false
		return rest
	}
	leaves = !t.established || end && !t.broken // else it has said goodbye
	return nil
}
