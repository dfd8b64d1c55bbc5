package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/selfsigned"
	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

const (
	holterOf = serverHolter + "-" // before the name of a dialect
	echoTCP  = "echo"
	echoUDP  = "echo" + overUDP
	sink     = "sink" // reads and answers nothing
)

// handled is the command for what a server has read: the gateway messages, the bare ones bytes.
const handled = "handled"

// serveProtocol returns how to start a server of one of the names above, or nil.
func serveProtocol(server string) func(context.Context) (measured.Subject, error) {
	switch {
	case server == echoTCP || server == echoUDP || server == sink:
		return func(ctx context.Context) (measured.Subject, error) { return serveEcho(ctx, server) }
	case strings.HasPrefix(server, holterOf):
		return func(ctx context.Context) (measured.Subject, error) {
			d, err := newDialect(strings.TrimPrefix(server, holterOf))
			if err != nil {
				return measured.Subject{}, err
			}
			return serveDialect(ctx, d)
		}
	}
	return nil
}

// counted is a subject that tells how much it has read.
func counted(addr net.Addr, events *eventlog.Log, read func() uint64) measured.Subject {
	at := netip.MustParseAddrPort(addr.String())
	return measured.Subject{Hello: measured.Hello{Addr: at}, Events: events, Answer: func(command string) (any, error) {
		if command != handled {
			return nil, errors.New("no such command")
		}
		return read(), nil
	}}
}

// serveDialect starts the registry and the gateway with one protocol.
func serveDialect(ctx context.Context, d dialect) (measured.Subject, error) {
	events, err := eventlog.New(0)
	if err != nil {
		return measured.Subject{}, err
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err != nil {
		return measured.Subject{}, err
	}
	l := gateway.Listener{Address: anyPort, Protocols: []codec.Protocol{d.protocol}, Packets: d.carrier == overUDP}
	if d.carrier == overTLS {
		certificate, err := selfsigned.New()
		if err != nil {
			return measured.Subject{}, err
		}
		l.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	g, err := gateway.New(ctx, registry, gateway.Config{Listen: []gateway.Listener{l}, Logger: log})
	if err != nil {
		return measured.Subject{}, err
	}
	go measured.Keep(ctx, func() error { return registry.Run(ctx) })
	go measured.Keep(ctx, func() error { return g.Run(ctx) })
	return counted(g.Addrs()[0], events, func() uint64 { return g.Stats().Messages }), nil
}

// echo sends back what it reads, on one of gnet's event loops.
type echo struct {
	gnet.BuiltinEventEngine

	booted chan gnet.Engine // room for one; receives the engine once, never closed
	mute   bool
	read   atomic.Uint64
}

// OnBoot implements gnet.EventHandler.
func (h *echo) OnBoot(engine gnet.Engine) gnet.Action {
	h.booted <- engine
	return gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (h *echo) OnTraffic(c gnet.Conn) gnet.Action {
	input, _ := c.Peek(-1)
	h.read.Add(uint64(len(input)))
	if !h.mute {
		_, _ = c.Write(input)
	}
	_, _ = c.Discard(-1)
	return gnet.None
}

// serveEcho starts gnet with its own acceptor.
func serveEcho(ctx context.Context, server string) (measured.Subject, error) {
	network := "tcp://"
	if server == echoUDP {
		network = "udp://"
	}
	h := &echo{booted: make(chan gnet.Engine, 1), mute: server == sink}
	go measured.Keep(ctx, func() error { return gnet.Run(h, network+anyPort, gnet.WithNumEventLoop(1)) })
	fd, err := (<-h.booted).Dup()
	if err != nil {
		return measured.Subject{}, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return measured.Subject{}, os.NewSyscallError("getsockname", err)
	}
	at := name.(*unix.SockaddrInet4)
	addr := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)))
	return counted(addr, nil, h.read.Load), unix.Close(fd)
}
