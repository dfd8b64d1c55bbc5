package gateway

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/sockets"
	"github.com/holter-iot/holter/liveness/watermark"
)

// probe is a socket pair with one end in an event loop. What is written to the other end comes out
// behind all that the loop's sockets held before.
type probe struct {
	loop *loop
	out  *net.UnixConn
	away atomic.Bool // a probe is in the loop; at most one is
}

// newProbe adds a probe to an event loop. gnet picks the loop with the fewest connections, so
// probes that are made one after the other, before any connection, end up in one loop each.
func newProbe(engine *gnet.Client, l *loop) (*probe, error) {
	in, out, err := socketPair()
	if err != nil {
		return nil, err
	}
	p := &probe{loop: l, out: out}
	if _, err := engine.EnrollContext(in, p); err != nil {
		return nil, fmt.Errorf("enroll probe: %w", err)
	}
	return p, nil
}

func socketPair() (in, out *net.UnixConn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "probe")
		c, err := net.FileConn(file)
		_ = file.Close()
		if err != nil {
			return nil, nil, fmt.Errorf("socket pair: %w", err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1], nil
}

func closeProbes(probes []*probe) {
	for _, p := range probes {
		_ = p.out.Close()
	}
}

// probe sends probes into the event loops until ctx is done. A probe follows the connections that
// waited to be accepted at its instant: what they say is read before it comes out.
func (g *Gateway) probe(ctx context.Context, probes []*probe) error {
	var barrier sockets.Barrier
	accepts := g.acceptsOf(false)
	l := watermark.Loop{
		Source: g.source, Least: g.config.ProbeInterval,
		Pulse: func(now time.Time) (time.Duration, error) {
			listened := g.source.Pulse(now)
			barrier.Note(now, listened, accepts)
			return listened, nil
		},
		Advance: func(now time.Time) (time.Duration, error) {
			if listened, ok := barrier.Passed(now); ok {
				if err := show(probes, listened); err != nil {
					return 0, err
				}
			}
			if barrier.Waiting() {
				return sockets.LookAgain, nil
			}
			return 0, nil
		},
	}
	if err := l.Run(ctx); err != nil && ctx.Err() == nil { // else the loops are ending
		return err
	}
	return nil
}

// show sends a listening time into each event loop.
func show(probes []*probe, listened time.Duration) error {
	for _, p := range probes {
		if err := p.send(listened); err != nil {
			return fmt.Errorf("gateway: probe event loop %d: %w", p.loop.index, err)
		}
	}
	return nil
}

// send puts a listening time into the event loop, unless the one before is still in it.
func (p *probe) send(listened time.Duration) error {
	if !p.away.CompareAndSwap(false, true) {
		return nil
	}
	_, err := p.out.Write(binary.LittleEndian.AppendUint64(nil, uint64(listened)))
	return err
}

// returned is called by the event loop when a probe comes out of it.
func (p *probe) returned(c gnet.Conn) {
	b, err := c.Peek(8)
	if err != nil {
		return // the rest is still to come
	}
	listened := time.Duration(binary.LittleEndian.Uint64(b))
	_, _ = c.Discard(8)
	p.away.Store(false)
	p.loop.gateway.source.Watermark(p.loop.index, listened)
}
