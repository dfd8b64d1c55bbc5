package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/net/eventloop"
	"github.com/holter-iot/holter/liveness"
)

const (
	// MaxSend is the longest message that [Gateway.Send] takes, in bytes. Most protocols allow
	// less.
	MaxSend = 64 << 10
	// maxWaiting is how many messages may wait for one device.
	maxWaiting = 16
	// While a device does not read, Send looks again and again whether its message has been
	// written: first after firstLook, then after twice as long each time, up to lastLook.
	firstLook = time.Millisecond
	lastLook  = 200 * time.Millisecond
)

// Errors that are wrapped by what [Gateway.Send] returns.
var (
	// ErrNotConnected means that the device has no open connection to a gateway of this process.
	ErrNotConnected = errors.New("gateway: the device is not connected here")
	// ErrNoMessages means that the device's protocol has no message for texts.
	ErrNoMessages = errors.New("gateway: the device's protocol has no messages to devices")
	// ErrNotAllowed means that a message of the protocol cannot hold this text.
	ErrNotAllowed = errors.New("gateway: the device's protocol does not allow this text")
	// ErrTooLong means that the payload is longer than MaxSend, Config.MaxOutbound or a message of
	// the protocol.
	ErrTooLong = errors.New("gateway: the message is too long")
	// ErrSlowReader means that the device has left too much unread.
	ErrSlowReader = errors.New("gateway: the device does not read what it was sent before")
	// ErrUnacknowledged means that a message was sent in datagrams, and the device did not
	// acknowledge it in time.
	ErrUnacknowledged = errors.New("gateway: the device did not acknowledge the message in time")
	// ErrTooMany means that too many messages wait for the device.
	ErrTooMany = errors.New("gateway: too many messages wait for the device")
)

// Sent describes a message that was sent.
type Sent struct {
	Protocol string // the name of the one that the device speaks
	Bytes    int    // that were written: the payload, and what the protocol puts around it
	// Acknowledged: the device has confirmed the message. Only messages in datagrams are confirmed,
	// of protocols that number them.
	Acknowledged bool
}

// Send writes a message to a connected device: payload as a text of the device's protocol, or, if
// raw is set, as it is. It blocks until the kernel has all of it, or ctx is done; that the kernel
// has it does not mean that the device has. In datagrams, a message of a protocol that numbers them is
// repeated after 1, 2, 4 … s, and Send blocks until the device acknowledges it. It may be called concurrently; messages that are sent
// one after the other arrive in that order. Payload must not be changed before Send returns.
//
// The error wraps one of ErrNotConnected, ErrNoMessages, ErrNotAllowed, ErrTooLong, ErrSlowReader,
// ErrUnacknowledged, ErrTooMany, or the cause why ctx is done. In the last case it reports whether some of the message
// may still be written; otherwise nothing was, unless the connection ended in the middle.
func (g *Gateway) Send(ctx context.Context, id string, payload []byte, raw bool) (Sent, error) {
	peer, _ := g.registry.Peer(id)
	to, _ := peer.(transport)
	return g.sendTo(ctx, to, id, payload, raw)
}

// SendFar is [Gateway.Send] for a device whose session is at a [remote.Judge]: peer is what was passed to
// Judge.Open.
func (g *Gateway) SendFar(ctx context.Context, peer liveness.Peer, payload []byte, raw bool) (Sent, error) {
	switch to := peer.(type) {
	case *farPeer:
		return g.sendTo(ctx, to.connection, to.id, payload, raw)
	case *udpSession:
		return g.sendTo(ctx, to, to.id, payload, raw)
	}
	return Sent{}, ErrNotConnected
}

// sendTo sends to a device by a transport, which is nil if it has none.
func (g *Gateway) sendTo(ctx context.Context, to transport, id string, payload []byte, raw bool) (Sent, error) {
	if most := min(MaxSend, g.config.MaxOutbound); len(payload) > most {
		return Sent{}, fmt.Errorf("%w: %d bytes, want at most %d", ErrTooLong, len(payload), most)
	}
	if !g.waiting.enter(id, maxWaiting) {
		return Sent{}, fmt.Errorf("%w: %d; send one when another is written", ErrTooMany, maxWaiting)
	}
	defer g.waiting.leave(id, maxWaiting)
	if to == nil {
		return Sent{}, ErrNotConnected
	}
	l := &outbound{gateway: g, id: id, payload: payload, raw: raw}
	if err := l.deliver(ctx, to); err != nil {
		return Sent{}, err
	}
	g.counts.sent.Add(1)
	return l.sent, nil
}

// outbound is a message on its way to a device.
type outbound struct {
	gateway *Gateway
	id      string
	payload []byte
	raw     bool
	number  uint64 // 0: it has none
	sent    Sent
}

// encode returns what to write, in dst or in place of it. by is the transport that asks, which
// holds the conversation with the device; at is the listener that the device came to.
func (l *outbound) encode(dst []byte, by transport, t *conversation, at *listener) ([]byte, error) {
	if err := l.check(by, t); err != nil {
		return nil, err
	}
	out := l.payload
	if !l.raw {
		sender, ok := t.codec.(codec.Sender)
		if !ok {
			return nil, fmt.Errorf("%w: %s has none; raw bytes can be sent", ErrNoMessages, t.protocol(at))
		}
		var err error
		if out, err = l.message(dst, sender); err != nil {
			return nil, refused(err)
		}
		if most := l.gateway.config.MaxOutbound; len(out) > most {
			return nil, fmt.Errorf("%w: %d bytes in the device's protocol, want at most %d", ErrTooLong, len(out), most)
		}
	}
	l.sent = Sent{Protocol: t.protocol(at), Bytes: len(out)}
	return out, nil
}

// errOpening means that the judge has not answered yet whether the device's session is open.
var errOpening = errors.New("gateway: the device's session is being opened")

// check returns why the device is not to be sent to by a transport: it has come back on another one
// meanwhile, or ended its session.
func (l *outbound) check(by transport, t *conversation) error {
	if far := t.far(); far != nil {
		switch {
		case far.ID() != l.id, far.Ended():
			return ErrNotConnected
		case !t.established:
			return errOpening
		}
		return nil
	}
	if peer, ok := l.gateway.registry.Peer(l.id); !ok || peer != by {
		return ErrNotConnected
	}
	return nil
}

// message makes a message of the payload. A codec that panics would end an event loop, and the
// process.
func (l *outbound) message(dst []byte, by codec.Sender) (out []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			l.gateway.counts.panics.Add(1)
			l.gateway.log.Error("a message made a codec panic; it is not sent", "device", l.id, "panic", v, "stack", string(debug.Stack()))
			err = errors.New("the codec failed")
		}
	}()
	if l.number > 0 {
		return by.(codec.Numberer).SendNumbered(dst, l.number, l.payload)
	}
	return by.Send(dst, l.payload)
}

// refused returns the error for what a codec said of a payload.
func refused(err error) error {
	if e, ok := errors.AsType[*codec.Error](err); ok && e.Code == codec.TooLong {
		return fmt.Errorf("%w: %s", ErrTooLong, e.Text)
	}
	return fmt.Errorf("%w: %w", ErrNotAllowed, err)
}

// deliver hands the message to a transport, and waits until the kernel has all of it, and of what
// was written behind it in the meantime.
func (l *outbound) deliver(ctx context.Context, to transport) error {
	if v, ok := to.(*udpSession); ok {
		return v.deliver(ctx, l)
	}
	var err error
	var left int
	var open bool
	write := func() {
		if err = to.send(l); err == nil {
			left, open = to.unsent()
		}
	}
	late := run(ctx, to.where(), write)
	for look := firstLook; late == nil && errors.Is(err, errOpening); look = min(2*look, lastLook) {
		late = later(ctx, look, to.where(), write)
	}
	switch {
	case late != nil:
		return fmt.Errorf("%w; nothing was written", late)
	case err != nil:
		return explain(err)
	}
	for look := firstLook; left > 0 || !open; look = min(2*look, lastLook) {
		if !open {
			return fmt.Errorf("%w: the connection ended before all was written", ErrNotConnected)
		}
		if late = later(ctx, look, to.where(), func() { left, open = to.unsent() }); late != nil {
			return fmt.Errorf("%w: the device does not read; some of it may be written later", late)
		}
	}
	return nil
}

// later is run after a while.
func later(ctx context.Context, wait time.Duration, l *loop, f func()) error {
	select {
	case <-time.After(wait):
		return run(ctx, l, f)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// explain gives the kernel's errors about datagrams a name.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EMSGSIZE):
		return fmt.Errorf("%w for a datagram: %w", ErrTooLong, err)
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("%w: the kernel takes no more: %w", ErrSlowReader, err)
	}
	return err
}

// run calls f on an event loop, or at once if l is nil, and waits for it. If ctx is done before f
// begins, or the loop ends, f is not called, and the error is why.
func run(ctx context.Context, l *loop, f func()) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if l == nil {
		f()
		return nil
	}
	var taken atomic.Bool // by the loop, or by us to give up
	done := make(chan struct{})
	err := l.events.Execute(func() {
		defer close(done)
		if taken.CompareAndSwap(false, true) {
			f()
		}
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotConnected, err)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-l.gateway.ended:
		err = fmt.Errorf("%w: %w", ErrNotConnected, eventloop.ErrClosed)
	}
	if taken.CompareAndSwap(false, true) {
		return err
	}
	<-done
	return nil
}

// protocol returns the name of the protocol that the device speaks.
func (t *conversation) protocol(at *listener) string { return at.Protocols[t.spoken].Name() }

// index returns the index of one of the listener's protocols.
func (l *listener) index(p codec.Protocol) uint8 {
	for i := range l.Protocols {
		if l.Protocols[i].Name() == p.Name() {
			return uint8(i)
		}
	}
	return 0
}
