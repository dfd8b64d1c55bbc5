package ear

import (
	"fmt"
	"math"
	"net"
	"os"
	"sync/atomic"
	"syscall"
)

// Listener counts each connection before it takes it from the kernel. So at every instant a connection that waits to be accepted either
// waits still, is counted, or is settled, and nothing overtakes it on the way from one to the next. Make one with [Count].
//
// One goroutine accepts, and calls [Listener.Settle] once for each connection, in their order. The other methods may be called concurrently.
type Listener struct {
	net.Listener

	socket syscall.RawConn // the listener's, to ask the kernel about; nil for one that has none
	ready  *os.File        // the same socket, to wait at without accepting; nil where that is not possible

	begun   atomic.Uint64 // connections that are accepted, and the one whose accepting has begun
	settled atomic.Uint64
}

// Count returns a listener that counts. Of one that is not of sockets it is not known who waits. It fails if there are no descriptors.
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
	if canWait {
		if c.ready, err = s.File(); err != nil {
			return nil, fmt.Errorf("wait at listener: %w", err)
		}
	}
	return c, nil
}

// Accept waits for a connection, counts it and accepts it. One that could not be accepted does not count.
func (l *Listener) Accept() (net.Conn, error) {
	if !l.wait() {
		c, err := l.Listener.Accept()
		if err == nil {
			l.begun.Add(1)
		}
		return c, err
	}
	l.begun.Add(1)
	c, err := l.Listener.Accept() // at once: nobody else takes what is there
	if err != nil {
		l.begun.Add(^uint64(0))
	}
	return c, err
}

// wait returns once there is something to accept, or an error. It returns false if that cannot be waited for.
func (l *Listener) wait() bool {
	if l.ready == nil {
		return false
	}
	socket, err := l.ready.SyscallConn()
	return err == nil && socket.Read(pending) == nil
}

// Settle says that the next of the connections that were accepted is where it is heard, or that it is refused.
func (l *Listener) Settle() { l.settled.Add(1) }

// Asked returns what to ask [Listener.Entered] for, to know when all are settled that wait now or are accepted and not settled.
func (l *Listener) Asked() uint64 {
	waiting, known := l.waiting() // first: who is accepted in between is counted twice rather than not at all
	if !known && waiting > 0 {
		return math.MaxUint64
	}
	return l.begun.Load() + waiting
}

// Entered reports whether all are settled who waited when [Listener.Asked] returned a number. It may do so late: when others are settled
// that came after them, or nobody waits.
func (l *Listener) Entered(asked uint64) bool {
	if l.settled.Load() >= asked {
		return true
	}
	// In this order: whoever does not wait any more is among those that are counted after.
	waiting, _ := l.waiting()
	return waiting == 0 && l.settled.Load() >= l.begun.Load()
}

// waiting returns how many connections wait to be accepted; or, and that it is not known, 1 if there are any. At a listener that is closed
// nobody waits.
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
	if l.ready != nil {
		_ = l.ready.Close() // after it: who waits at this one then learns from the listener that it is closed
	}
	return err
}
