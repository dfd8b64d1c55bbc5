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

// idleProbe is the time between probes while no deadline is near.
const idleProbe = 200 * time.Millisecond

// probe sends probes into the event loops until ctx is done: when a deadline is reached, but not more often than ProbeInterval, and
// now and then if there is none. A probe follows those who waited at the doors at the instant that it is for: what they say is read before
// it comes out.
func (g *Gateway) probe(ctx context.Context, probes []*probe) error {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	var last time.Time
	waiting := knocks{doors: g.doorsOf(false)}
	var listened time.Duration
	wait := time.Duration(0)
	for {
		select {
		case <-alarm.C:
		case <-g.source.Sooner():
		case <-ctx.Done():
			return nil
		}
		now := time.Now()
		if now.Sub(last) >= wait {
			last, listened = now, g.source.Pulse(now)
			waiting.note(now, listened)
		}
		if err := g.show(probes, waiting.entered(now)); err != nil {
			if ctx.Err() != nil {
				return nil // the loops are ending
			}
			return err
		}
		wait = max(idleProbe, g.config.ProbeInterval)
		if next, ok := g.source.Next(); ok {
			wait = max(min(wait, next-listened), g.config.ProbeInterval)
		}
		again := time.Until(last.Add(wait))
		if len(waiting.first) > 0 {
			again = min(again, lookAgain)
		}
		alarm.Reset(again)
	}
}

// show sends a listening time into each event loop; none if it is negative.
func (g *Gateway) show(probes []*probe, listened time.Duration) error {
	if listened < 0 {
		return nil
	}
	for _, p := range probes {
		if err := p.send(listened); err != nil {
			return fmt.Errorf("gateway: probe event loop %d: %w", p.loop.index, err)
		}
	}
	return nil
}

// send puts the listening time into the event loop, unless the one before is still in it.
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
