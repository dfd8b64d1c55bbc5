package sockets

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// acceptWithin is how long a connection that the kernel has announced is waited for: it may have
// been taken by another process that accepts at the same socket, or have ended.
const acceptWithin = 10 * time.Millisecond

// Listener counts each connection before it takes it from the kernel's queue. So at every instant a
// connection that waits to be accepted either waits still, is counted, or is settled, and nothing
// overtakes it on the way from one to the next. Make one with [Count].
//
// One goroutine accepts, with [Listener.Accept] or [Listener.Serve]. For each connection
// [Listener.Settle] is called once, in their order. The other methods may be called concurrently.
type Listener struct {
	net.Listener

	socket syscall.RawConn // the listener's, to ask the kernel about; nil for one that has none
	ready  *os.File        // the same socket, to wait at without accepting; nil where that is not possible
	spare  *os.File        // a descriptor for when there is no other; nil until Serve
	pause  pause

	begun   atomic.Uint64 // connections that are accepted, and the one whose accepting has begun
	settled atomic.Uint64
}

// Count returns a listener that counts. If l has no socket, it is not known what waits there. Count
// fails if there are no descriptors left.
func Count(l net.Listener) (*Listener, error) {
	c := &Listener{Listener: l}
	s, ok := l.(interface {
		syscall.Conn
		File() (*os.File, error)
	})
	if !ok {
		return c, nil
	}
	var err error
	if c.socket, err = s.SyscallConn(); err != nil {
		return nil, fmt.Errorf("ask listener: %w", err)
	}
	if canPoll {
		if c.ready, err = s.File(); err != nil {
			return nil, fmt.Errorf("wait at listener: %w", err)
		}
	}
	return c, nil
}

// Accept waits for a connection, counts it and accepts it. One that could not be accepted does not
// count.
func (l *Listener) Accept() (net.Conn, error) {
	for l.wait() {
		if c, err := l.acceptCounted(); !errors.Is(err, os.ErrDeadlineExceeded) {
			return c, err
		}
	}
	c, err := l.Listener.Accept()
	if err == nil {
		l.begun.Add(1)
	}
	return c, err
}

// wait returns true once there is something to accept, or an error to be had. It returns false if
// that cannot be waited for.
func (l *Listener) wait() bool {
	if l.ready == nil {
		return false
	}
	socket, err := l.ready.SyscallConn()
	return err == nil && socket.Read(pending) == nil
}

// acceptCounted counts a connection that waits, and accepts it. It does not wait for one for long, as a
// listening clock waits for what is counted.
func (l *Listener) acceptCounted() (net.Conn, error) {
	l.begun.Add(1)
	if d, ok := l.Listener.(interface{ SetDeadline(at time.Time) error }); ok {
		_ = d.SetDeadline(time.Now().Add(acceptWithin))
		defer func() { _ = d.SetDeadline(time.Time{}) }()
	}
	c, err := l.Listener.Accept()
	if err != nil {
		l.begun.Add(^uint64(0))
	}
	return c, err
}

// Serve accepts connections until the listener is closed or ctx is done, and returns nil then; while the
// listener is paused it waits. It calls admit with each, which must not block for long and sees to it that the
// connection is settled. After an error it calls failed and pauses, for a second at most. If descriptors have run
// out, it turns a connection that waits away, so that the client knows, and calls admit with nil
// for it: that is to be settled in its turn, too. Its own error means that there was no descriptor
// to begin with.
func (l *Listener) Serve(ctx context.Context, admit func(c net.Conn), failed func(err error)) (err error) {
	if l.spare, err = os.Open(os.DevNull); err != nil {
		return err
	}
	defer func() { _ = l.spare.Close() }()
	const shortPause, longPause = 5 * time.Millisecond, time.Second
	for pause := time.Duration(0); ctx.Err() == nil; {
		l.pause.await(ctx)
		c, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			admit(c)
			continue
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, syscall.EINVAL): // it is paused, or was
			continue
		}
		pause = min(max(2*pause, shortPause), longPause)
		if (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && l.turnAway() {
			pause = shortPause
			admit(nil)
		}
		failed(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return nil
}

// turnAway gives the spare descriptor up for a moment to accept a connection and reset it. It
// reports whether it did.
func (l *Listener) turnAway() bool {
	_ = l.spare.Close()
	defer func() { l.spare, _ = os.Open(os.DevNull) }()
	c, err := l.acceptCounted()
	if err != nil {
		return false
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
	return true
}

// Settle settles the next of the connections that were accepted: it is where it is heard, or
// refused.
func (l *Listener) Settle() { l.settled.Add(1) }

// Asked returns what to pass to [Listener.Entered], to learn when all connections are settled that
// wait now or are accepted and not settled.
func (l *Listener) Asked() uint64 {
	waiting, known := l.waiting() // first: who is accepted in between is counted twice rather than not at all
	if !known && waiting > 0 {
		return math.MaxUint64
	}
	return l.begun.Load() + waiting
}

// Entered reports whether all connections are settled that waited when [Listener.Asked] returned a
// number. It may do so late: when others are settled that came after them, or none waits.
func (l *Listener) Entered(asked uint64) bool {
	if l.settled.Load() >= asked {
		return true
	}
	// In this order: whoever does not wait any more is among those that are counted after.
	waiting, _ := l.waiting()
	return waiting == 0 && l.settled.Load() >= l.begun.Load()
}

// waiting returns how many connections wait to be accepted. If the kernel does not tell the number,
// known is false and n is 1 if there are any. At a closed listener none waits.
func (l *Listener) waiting() (n uint64, known bool) {
	if l.socket == nil {
		return 0, false
	}
	_ = l.socket.Control(func(fd uintptr) {
		if n, known = queued(int(fd)); !known && pending(fd) {
			n = 1
		}
	})
	return n, known
}

// Close closes the listener.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	l.pause.end()
	if l.ready != nil {
		_ = l.ready.Close() // after it: who waits at this one then learns from the listener that it is closed
	}
	return err
}
