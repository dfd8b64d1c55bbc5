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
)

// probe is a socket pair with one end in an event loop. What is written to the other end comes out behind all that the loop's sockets
// held before.
type probe struct {
	loop *loop
	out  *net.UnixConn
	away atomic.Bool // a probe is in the loop; at most one is
}

// newProbe registers a probe with an event loop. The loop with the fewest connections takes it, so that probes that are made one after
// the other, before any connection, end up in one loop each.
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

// probe sends probes into the event loops until ctx is done.
func (g *Gateway) probe(ctx context.Context, probes []*probe) error {
	tick := time.NewTicker(g.config.ProbeInterval)
	defer tick.Stop()
	for {
		listened := g.source.Pulse(time.Now())
		for _, p := range probes {
			if !p.away.CompareAndSwap(false, true) {
				continue
			}
			if _, err := p.out.Write(binary.LittleEndian.AppendUint64(nil, uint64(listened))); err != nil {
				return fmt.Errorf("gateway: probe event loop %d: %w", p.loop.index, err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
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
