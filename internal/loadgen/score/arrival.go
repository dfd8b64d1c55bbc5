package score

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lookEvery is how often a connection on which nothing comes is looked at.
	lookEvery = 100 * time.Millisecond
	// prompt is how long a read may take that waits no longer than that, if nothing holds this
	// process up.
	prompt = lookEvery + 50*time.Millisecond
)

// arrivals is a connection that notes when what is read from it came at the earliest. On a machine
// that is exhausted this process reads it later, and that is not the gateway's delay.
type arrivals struct {
	net.Conn

	raw   syscall.RawConn // nil if it has no descriptor
	since atomic.Int64    // Unix time in nanoseconds: until then there was nothing to be read
}

// noting returns a new connection as one that notes arrivals, unless there is none.
func noting(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	a := &arrivals{Conn: c}
	if s, ok := c.(syscall.Conn); ok {
		a.raw, _ = s.SyscallConn()
	}
	return a, nil
}

// Read implements [net.Conn].
func (a *arrivals) Read(p []byte) (int, error) {
	for {
		asked := time.Now()
		empty := a.unread() == 0
		if empty {
			a.since.Store(asked.UnixNano())
		}
		_ = a.Conn.SetReadDeadline(asked.Add(lookEvery))
		n, err := a.Conn.Read(p)
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if now := time.Now(); empty && now.Sub(asked) < prompt {
			a.since.Store(now.UnixNano())
		}
		return n, err
	}
}

// unread returns how many bytes wait in the socket.
func (a *arrivals) unread() (n int) {
	if a.raw == nil {
		return 0
	}
	_ = a.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n
}

// traced returns a context for a request whose connection is passed to found.
func traced(ctx context.Context, found func(*arrivals)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		c := info.Conn
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn()
		}
		if a, ok := c.(*arrivals); ok {
			found(a)
		}
	}})
}
