package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/net/sockets"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// newGateway returns a gateway with one listener, and what runs it until the test ends, or until
// stop is called, which returns what Run does.
func newGateway(t *testing.T, at Listener) (g *Gateway, run func() (stop func() error)) {
	t.Helper()
	sink, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(sink, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g, err = New(t.Context(), registry, Config{Listen: []Listener{at}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return g, func() func() error {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // room for the one error; never closed
		go func() {
			heard, end := context.WithCancel(context.WithoutCancel(ctx))
			ended := make(chan error)
			go func() { ended <- registry.Run(heard) }()
			err := g.Run(ctx)
			end()
			done <- errors.Join(err, <-ended)
		}()
		stop := func() error {
			cancel()
			err := <-done
			done <- err
			return err
		}
		t.Cleanup(func() { _ = stop() })
		return stop
	}
}

// slowListener stops between taking a connection from the kernel and returning it.
type slowListener struct {
	*net.TCPListener

	taken, goOn chan struct{} // receive once for each connection; never closed
}

func (l *slowListener) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if err == nil {
		l.taken <- struct{}{}
		<-l.goOn
	}
	return c, err
}

// TestNoneOvertakesTheAccepted: a connection that waited is waited for also while the kernel does
// not hold it any more and the gateway does not have it yet.
func TestNoneOvertakesTheAccepted(t *testing.T) {
	secure := &tls.Config{Certificates: []tls.Certificate{testcert.New(t).Issue(t, testcert.Ask{Name: "gateway"})}}
	for name, at := range map[string]Listener{
		"tcp": {Address: "127.0.0.1:0"},
		"tls": {Address: "127.0.0.1:0", TLS: secure},
	} {
		t.Run(name, func(t *testing.T) {
			g, run := newGateway(t, at)
			l := g.listeners[0]
			slow := &slowListener{l.accepts[0].Listener.(*net.TCPListener), make(chan struct{}), make(chan struct{})}
			counted, err := sockets.Count(slow)
			if err != nil {
				t.Fatal(err)
			}
			defer func(first *sockets.Listener) { _ = first.Close() }(l.accepts[0])
			l.accepts[0] = counted
			run()
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.accepts[0].Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			<-slow.taken
			var barrier sockets.Barrier
			now := time.Now()
			barrier.Note(now, time.Second, []*sockets.Listener{counted})
			for range 100 {
				if listened, ok := barrier.Passed(now); ok {
					t.Fatalf("the probe for %v overtakes the connection", listened)
				}
			}
			slow.goOn <- struct{}{}
			testwait.Until(t, "the probe", func() bool { barrier.Passed(now); return !barrier.Waiting() })
		})
	}
}

// late is a transport that says where it is only when the event loops have ended.
type late struct {
	transport

	g     *Gateway
	found chan struct{} // room for one; receives when it is looked for; never closed
}

func (l late) where() *loop {
	select {
	case l.found <- struct{}{}:
	default:
	}
	<-l.g.ended
	return l.g.loops[0]
}

func (late) finish(ending) {}

func (late) writeProbe() bool { return true }

// TestEndsInOrder: what is still to be done on event loops when they end is no error.
func TestEndsInOrder(t *testing.T) {
	for name, begin := range map[string]func(*Gateway, late){
		"ask":   func(g *Gateway, l late) { g.probes.add(l) },
		"close": func(g *Gateway, l late) { g.close(l, "test") },
	} {
		t.Run(name, func(t *testing.T) {
			g, run := newGateway(t, Listener{Address: "127.0.0.1:0"})
			stop := run()
			l := late{g: g, found: make(chan struct{}, 1)}
			begin(g, l)
			<-l.found
			if err := stop(); err != nil {
				t.Errorf("Run = %v", err)
			}
		})
	}
}
