package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/net/sockets"
	"github.com/holter-iot/holter/liveness"
)

// tlsServer serves the listeners that speak TLS. Each connection has a goroutine of its own.
//
// Its listening clock is a [sockets.Clock], which asks the kernel what lies unread in sockets. What
// was read is in flight (see [tlsSocket.wait]) until the connection reads again, and it reads again
// only when tls.Conn has no whole record left, and the conversation no whole message. So the clock
// passes no heartbeat of which all bytes had reached the process, wherever it is. A part of a
// record is no heartbeat: the rest of it is still on the way.
//
// A handshake waits for its turn to be computed. Before the gateway's first answer it is not in
// flight, for a client cannot say hello before that: early data (RFC 8446, 2.3) is not accepted.
// After it, it is. But a client that is kept waiting says hello later, maybe after its device's
// deadline: that time is owed to it, and the clock stays behind by as much (see [arrears]).
type tlsServer struct {
	gateway   *Gateway
	source    *liveness.Source
	sockets   *sockets.Set
	clock     *sockets.Clock
	turns     handshakeLimiter
	arrears   *arrears
	exchanges sync.Pool      // of *tlsExchange: one is taken while something is handled
	leads     sync.Pool      // of *[maxLead]byte: one is taken until a handshake has begun
	serving   sync.WaitGroup // one for each goroutine of connections

	mu    sync.Mutex // guards conns
	conns map[*tlsConn]struct{}
}

// newTLSServer prepares the listeners that speak TLS, and returns nil if there are none.
func (g *Gateway) newTLSServer() (*tlsServer, error) {
	if len(g.acceptsOf(true)) == 0 {
		return nil, nil
	}
	source, err := g.addSource("-tls", "device connections over TLS; its clock follows what the kernel says of their sockets", 1)
	if err != nil {
		return nil, err
	}
	s := &tlsServer{gateway: g, source: source, sockets: sockets.NewSet(), arrears: newArrears(), conns: make(map[*tlsConn]struct{})}
	s.turns.free = g.config.MaxHandshakes
	s.exchanges.New = func() any {
		return &tlsExchange{exchange: exchange{gateway: g, counts: new(loopCounters)}, input: make([]byte, 0, roomyInput)}
	}
	s.leads.New = func() any { return new([maxLead]byte) }
	for _, l := range g.listeners {
		if l.TLS != nil {
			l.source = source
		}
	}
	s.clock = sockets.NewClock(&tlsClock{Source: s.source, arrears: s.arrears}, s.sockets, nil)
	return s, nil
}

// start begins the listening.
func (s *tlsServer) start() {
	s.source.Pulse(time.Now())
	for _, l := range s.gateway.acceptsOf(true) {
		s.sockets.Listen(l)
	}
}

// stop says goodbye on all connections, closes them and waits. No connection is accepted any more.
func (s *tlsServer) stop() {
	for _, c := range s.open() {
		c.finish(ending{why: whyShutdown})
	}
	s.serving.Wait()
}

// open returns the connections that are open.
func (s *tlsServer) open() []*tlsConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// admit begins to serve a connection. proxied is whether a PROXY header comes first.
func (s *tlsServer) admit(l *listener, tcp *net.TCPConn, proxied bool) {
	g := s.gateway
	raw, err := tcp.SyscallConn()
	if err != nil { // it is closed already
		if proxied { // its address is not counted
			g.connections.Add(-1)
		} else {
			g.leave(remoteAddr(tcp.RemoteAddr()))
		}
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
	c := &tlsConn{connection: connection{gateway: g, listener: l}, server: s, other: remoteAddr(tcp.RemoteAddr())}
	c.link = c
	if proxied {
		c.throughProxy()
	}
	c.socket = tlsSocket{Conn: s.sockets.Track(tcp), server: s, conn: c, tcp: tcp, raw: raw}
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	g.welcome(&c.connection)
	c.socket.debt = s.arrears.begin(c.socket.since()) // it may have waited to be accepted
	c.mu.Lock()
	c.deadline, _ = g.timers.AfterFunc(g.limits.Load().handshakeTimeout, c.tooLate)
	c.mu.Unlock()
	s.serving.Go(c.greet)
}

// forget drops a connection that has ended.
func (s *tlsServer) forget(c *tlsConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// tlsExchange is an exchange with a buffer for input.
type tlsExchange struct {
	exchange

	input []byte
}

// exchange returns an exchange with the device of a connection.
func (s *tlsServer) exchange(c *tlsConn) *tlsExchange {
	x := s.exchanges.Get().(*tlsExchange)
	c.prepare(&x.exchange)
	return x
}

// putBack returns an exchange to the pool.
func (s *tlsServer) putBack(x *tlsExchange) {
	s.gateway.counts.tlsMessages.Add(x.counts.messages.Swap(0))
	x.listener, x.peer, x.sender = nil, nil, nil // a connection that is gone is not held
	if cap(x.out) > maxRoom {
		x.out = nil
	}
	if cap(x.input) > maxRoom {
		x.input = make([]byte, 0, roomyInput)
	}
	s.exchanges.Put(x)
}

// failed counts a handshake that failed, and logs the 1st, 2nd, 4th, 8th … One that the other end,
// or the gateway, broke off is not logged.
func (s *tlsServer) failed(c *tlsConn, err error) {
	g := s.gateway
	n := g.counts.handshakeErrors.Add(1)
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || n&(n-1) != 0 {
		return
	}
	g.log.Warn("a TLS handshake failed; the others are not affected", "error", err, "address", c.address(), "times", n,
		"help", "look at the device's certificate and at the authorities that it and the listener know")
}

// validate returns what is wrong with a listener's configuration.
func (l Listener) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("gateway: Listen at "+l.Address+": "+format, args...))
	}
	if l.Packets && (l.TLS != nil || len(l.Proxies) > 0) {
		bad("Packets goes without TLS and Proxies; they are for connections")
	}
	if t := l.TLS; t != nil {
		if len(t.Certificates) == 0 && t.GetCertificate == nil && t.GetConfigForClient == nil {
			bad("TLS has no certificate; package internal/cert loads one")
		}
		if t.MinVersion != 0 && t.MinVersion < tls.VersionTLS12 {
			bad("TLS.MinVersion is %s, want TLS 1.2 or later", tls.VersionName(t.MinVersion))
		}
	}
	if !slices.Contains(Identities(), l.Identity) {
		bad("Identity is %q, want one of %q", l.Identity, Identities())
	}
	if len(l.Proxies) > 0 && l.Identity != AnyName && l.Identity != CommonName {
		bad("Identity is %q, but a proxy passes on the common name alone", l.Identity)
	}
	if l.MaxDevices < 0 {
		bad("MaxDevices is %d, want 0 (no limit) or more", l.MaxDevices)
	}
	if l.MaxMessages == 0 || l.MaxMessages > 1<<20 {
		bad("MaxMessages is %d, want 1 to %d, or a negative number for no limit", l.MaxMessages, 1<<20)
	}
	if least := l.longest() / int(burst/time.Second); l.MaxBytes >= 0 && l.MaxBytes <= least {
		bad("MaxBytes is %d, want more than %d, so that the longest message gets through, or a negative number for no limit", l.MaxBytes, least)
	}
	for _, p := range l.Proxies {
		if !p.IsValid() || p.Addr().Is4In6() {
			bad("Proxies has %v, want a network such as %v", p, netip.MustParsePrefix("10.0.0.0/8"))
		}
	}
	return errors.Join(errs...)
}

// run keeps the listening clock until ctx is done.
func (s *tlsServer) run(ctx context.Context) error {
	if err := s.clock.Run(ctx); err != nil {
		return fmt.Errorf("gateway: TLS: %w", err)
	}
	return nil
}

// longWait is how long clients are sure to wait for the gateway's part of a handshake.
const longWait = 3 * time.Second

// handshakeLimiter lets a number of handshakes be computed at a time. The others wait in the order
// in which they came, but those that were begun go before those that were not. When the first of
// these has waited for longWait, the last goes before it: a client that has waited so long may give
// up before it gets its answer, and if all are served as late as that, none is served at all. The
// handshakes that are passed over have their turn when there is time for them. A handshake that
// waits for its client takes up no place.
type handshakeLimiter struct {
	mu    sync.Mutex // guards the fields
	free  int
	begun []chan struct{} // each is closed when its turn has come
	fresh []fresh
}

// fresh is a handshake that was not begun.
type fresh struct {
	turn  chan struct{}
	since time.Time
}

// enter waits for a place.
func (t *handshakeLimiter) enter(begun bool) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	if begun {
		t.begun = append(t.begun, turn)
	} else {
		t.fresh = append(t.fresh, fresh{turn, time.Now()})
	}
	t.mu.Unlock()
	<-turn
}

// leave gives the place to the next.
func (t *handshakeLimiter) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n := len(t.fresh); {
	case len(t.begun) > 0:
		close(t.begun[0])
		t.begun = t.begun[1:]
	case n > 0 && time.Since(t.fresh[0].since) > longWait:
		close(t.fresh[n-1].turn)
		t.fresh = t.fresh[:n-1]
	case n > 0:
		close(t.fresh[0].turn)
		t.fresh = t.fresh[1:]
	default:
		t.free++
		t.begun, t.fresh = nil, nil
	}
}
