package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/net/sockets"
)

// listen binds the addresses. After an error some are bound.
func (g *Gateway) listen(ctx context.Context) error {
	lc := net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		if !g.config.ReusePort {
			return nil
		}
		return setOption(c, unix.SO_REUSEPORT, 1)
	}}
	lc.SetMultipathTCP(false) // its sockets cost the kernel more, and devices do not speak it
	for _, at := range g.config.Listen {
		if at.Packets {
			addr, err := g.udp.listen(ctx, &lc, at)
			if err != nil {
				return err
			}
			if err := g.bind(g.udp.readers[len(g.udp.readers)-1].listener, addr); err != nil {
				return err
			}
			continue
		}
		l := &listener{Listener: at, rate: rate.NewLimiter(rate.Limit(g.config.AcceptRate), burstOf(g.config.AcceptRate))}
		g.listeners = append(g.listeners, l)
		if err := l.listen(ctx, &lc, g.acceptors(at)); err != nil {
			return err
		}
		if err := g.bind(l, l.accepts[0].Addr()); err != nil {
			return err
		}
	}
	return nil
}

// acceptors returns at how many sockets a listener accepts. At each of them, no more connections may
// wait to be accepted than the system allows (net.core.somaxconn).
func (g *Gateway) acceptors(at Listener) int {
	if at.TLS != nil || g.loopRoom == 0 {
		return 1
	}
	return min(g.loopCount, maxAcceptors)
}

// maxAcceptors is at how many sockets a listener accepts, at most.
const maxAcceptors = 16

// listen binds the listener's address with a number of sockets. The first keeps it for itself: it is
// bound without SO_REUSEPORT, so another process that wants it is refused unless it sets that option.
func (l *listener) listen(ctx context.Context, lc *net.ListenConfig, acceptors int) error {
	address := l.Address
	for range acceptors {
		accepts, err := lc.Listen(ctx, "tcp", address)
		if err != nil {
			return err
		}
		counted, err := sockets.Count(accepts)
		if err == nil && l.MaxBytes > 0 {
			err = setBacklog(accepts.(*net.TCPListener), l.MaxBytes)
		}
		if err != nil {
			return errors.Join(err, accepts.Close())
		}
		l.accepts, address = append(l.accepts, counted), accepts.Addr().String()
		if acceptors == 1 {
			return nil
		}
		if err := share(accepts.(*net.TCPListener)); err != nil {
			return err
		}
		lc = &net.ListenConfig{KeepAlive: lc.KeepAlive, Control: func(_, _ string, c syscall.RawConn) error { return setOption(c, unix.SO_REUSEPORT, 1) }}
		lc.SetMultipathTCP(false)
	}
	return nil
}

// share lets other sockets listen at the same address.
func share(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return setOption(raw, unix.SO_REUSEPORT, 1)
}

// setBacklog bounds what the sockets of a listener's connections hold that was not read.
func setBacklog(l *net.TCPListener, bytesPerSecond int) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return setOption(raw, unix.SO_RCVBUF, max(bytesPerSecond/backlogPart, minBacklog))
}

// setOption sets an option of a socket (socket(7)).
func setOption(c syscall.RawConn, option, value int) (err error) {
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, value) }); e != nil {
		return e
	}
	return os.NewSyscallError("setsockopt", err)
}

func (g *Gateway) closeListeners() {
	for _, l := range g.listeners {
		for _, accepts := range l.accepts {
			_ = accepts.Close()
		}
	}
}

// accept lets connections in at a socket of a listener until that is closed.
func (g *Gateway) accept(ctx context.Context, l *listener, accepts *sockets.Listener) error {
	admit := func(c net.Conn) {
		if c == nil { // it was turned away
			g.counts.refusedFull.Add(1)
			accepts.Settle()
			return
		}
		g.admit(l, c.(*net.TCPConn))
		accepts.Settle()
		_ = l.rate.Wait(ctx) // it fails if ctx is done
		runtime.Gosched()    // else a crowd would keep the event loops waiting until the scheduler's time slice is over
	}
	failed := func(err error) {
		g.counts.acceptErrors.Add(1)
		g.warnAccept(err)
	}
	if err := accepts.Serve(ctx, admit, failed); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}

// admit hands a connection to an event loop or to the TLS server, or refuses it.
func (g *Gateway) admit(at *listener, c *net.TCPConn) {
	g.counts.accepted.Add(1)
	addr := remoteAddr(c.RemoteAddr())
	proxied := at.trusts(addr)
	switch {
	case g.connections.Add(1) > int64(g.limits.Load().maxConnections) && !g.makeRoom(addr):
		g.counts.refusedFull.Add(1)
		g.warnFull("there are as many connections as there may be", addr)
		g.refuse(at, c, "the gateway has reached its limit of connections; try again later")
		return
	case !proxied && !g.addresses.enter(addr, g.limits.Load().maxPerAddress):
		g.counts.refusedAddress.Add(1)
		g.warnFull("the address has as many connections as it may have", addr)
		g.refuse(at, c, "your address has reached its limit of connections")
		return
	}
	g.keepAlive(c)
	if at.TLS != nil {
		g.tlsServer.admit(at, c, proxied)
		return
	}
	served := newConn(g.roomyLoop(), at, addr)
	if proxied {
		served.throughProxy()
	}
	if err := serve(served, c); err != nil {
		g.counts.enrollErrors.Add(1)
		g.left(&served.conversation, addr)
		g.warnAccept(err)
	}
}

// serve hands a connection to its event loop.
func serve(served *conn, c *net.TCPConn) error {
	defer func() { _ = c.Close() }()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	own := -1
	if e := raw.Control(func(fd uintptr) { own, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); e != nil {
		return e
	}
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if err = served.open(own); err != nil {
		_ = unix.Close(own)
	}
	return err
}

// refuse tells a client why its connection is refused, and closes it. It does not wait for the
// client.
func (g *Gateway) refuse(l *listener, c *net.TCPConn, why string) {
	g.connections.Add(-1)
	_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond))
	if l.TLS == nil { // else the client would not understand it
		_, _ = c.Write(l.goodbye(nil, "", &codec.Error{Code: codec.Full, Text: why}))
	}
	_ = c.Close()
}

func (g *Gateway) leave(addr netip.Addr) {
	g.connections.Add(-1)
	g.addresses.leave(addr, g.limits.Load().maxPerAddress)
}

// keepAlive has the kernel probe an idle connection, each after a time of its own, so that a fleet
// is not probed in step.
func (g *Gateway) keepAlive(c *net.TCPConn) {
	if d := g.limits.Load().keepAlive; d > 0 {
		idle := d/2 + rand.N(d)
		_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: max(idle/5, time.Second), Count: 5})
	}
}

func (g *Gateway) warnAccept(err error) {
	if n := g.counts.warned.Add(1); n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th … time
		g.log.Warn("cannot accept a connection; the others are not affected", "error", err, "times", n,
			"connections", g.connections.Load(), "help", "raise the limit on open files (ulimit -n) or lower gateway.max_connections")
	}
}

// keyCounts counts what there is of each key, such as the connections of an address, up to a limit.
type keyCounts[K comparable] struct {
	mu     sync.Mutex // guards counts
	counts map[K]int
}

// enter counts one more of a key, and returns false if there are as many as there may be. A limit of
// 0 is none: then nothing is counted.
func (c *keyCounts[K]) enter(key K, limit int) bool {
	if limit == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[K]int)
	}
	if c.counts[key] >= limit {
		return false
	}
	c.counts[key]++
	return true
}

// leave takes back what enter counted with the same limit.
func (c *keyCounts[K]) leave(key K, limit int) {
	if limit == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts[key]--; c.counts[key] <= 0 {
		delete(c.counts, key)
	}
}

func remoteAddr(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
