//go:build linux

package gnet

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/liveness/watermark"
)

// mark goes through the event loop: a byte to a socket that the loop reads in its turn, behind all that had
// come. EventLoop.Execute would not do: a task that comes while gnet calls others is called at once, before
// what has come meanwhile is read. It goes twice: connections that the first trip found waiting to be
// accepted are read before the second ends.
type mark struct {
	socket   net.Conn     // the other end is in the loop
	underway atomic.Bool  // with the
	listened atomic.Int64 // listening time of its pulse
}

// keepClock pulses, and sends the mark with the listening time, until ctx is done.
func (s *Server) keepClock(ctx context.Context) {
	err := s.enroll(ctx)
	if err == nil {
		defer s.mark.socket.Close()
		clock := watermark.Loop{Source: s.Source, Pulse: func(now time.Time) (listened time.Duration, err error) {
			listened = s.Source.Pulse(now)
			if s.mark.underway.CompareAndSwap(false, true) {
				s.mark.listened.Store(int64(listened))
				_, err = s.mark.socket.Write([]byte{1})
			}
			return listened, err
		}}
		err = clock.Run(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.Failed(err)
	}
}

// passMark takes the mark out of the loop.
func (s *Server) passMark(c gnet.Conn) {
	trip, _ := c.Next(-1)
	if trip[0] == 1 {
		_, _ = s.mark.socket.Write([]byte{2})
		return
	}
	listened := time.Duration(s.mark.listened.Load())
	s.mark.underway.Store(false)
	s.Source.Watermark(0, listened)
}

// enroll makes the mark's socket, and puts its other end into the loop.
func (s *Server) enroll(ctx context.Context) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "mark")
		defer func() { _ = f.Close() }() // the connection has a descriptor of its own
		if ends[i], err = net.FileConn(f); err != nil {
			return err
		}
	}
	s.mark.socket = ends[0]
	enrolled, err := s.engine.Register(gnet.NewContext(gnet.NewNetConnContext(ctx, ends[1]), &s.mark))
	if err != nil {
		return err
	}
	return (<-enrolled).Err
}
