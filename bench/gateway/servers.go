package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/selfsigned"
	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

const anyPort = "127.0.0.1:0"

// The servers beside which protocols are measured.
const (
	echoTCP = "echo"
	echoUDP = "echo" + overUDP
	sink    = "sink" // reads and answers nothing
)

// The commands of the servers.
const (
	handled = "handled"  // how much was read: messages by the gateway, bytes by a bare server
	judged  = "verdicts" // the verdicts of the gateway's event log
)

// serve starts a server that speaks a dialect.
func serve(ctx context.Context, args []string) (measured.Subject, error) {
	if len(args) != 2 {
		return measured.Subject{}, errors.New("want a server and a dialect")
	}
	switch server := args[0]; server {
	case serverHolter:
		d, err := newDialect(args[1])
		if err != nil {
			return measured.Subject{}, err
		}
		return serveHolter(ctx, d)
	case "gnet":
		return serveGnet(ctx, "tcp", appendPongs)
	case echoTCP:
		return serveGnet(ctx, "tcp", same)
	case echoUDP:
		return serveGnet(ctx, "udp", same)
	case sink:
		return serveGnet(ctx, "tcp", nothing)
	case "gnet-enroll":
		return serveGnetEnroll(ctx)
	case "goroutines":
		return serveGoroutines(ctx)
	default:
		return measured.Subject{}, fmt.Errorf("no server %q", server)
	}
}

// serveHolter starts the registry and the gateway with the settings of holter serve and one protocol.
func serveHolter(ctx context.Context, d dialect) (s measured.Subject, err error) {
	if s.Events, err = eventlog.New(0); err != nil {
		return s, err
	}
	registry, err := liveness.New(s.Events, liveness.Config{})
	if err != nil {
		return s, err
	}
	l := gateway.Listener{Address: anyPort, Protocols: []codec.Protocol{d.protocol}, Packets: d.transport == overUDP}
	if d.transport == overTLS {
		certificate, err := selfsigned.New()
		if err != nil {
			return s, err
		}
		l.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	g, err := gateway.New(ctx, registry, gateway.Config{Listen: []gateway.Listener{l}, Logger: log})
	if err != nil {
		return s, err
	}
	go measured.Keep(ctx, func() error { return registry.Run(ctx) })
	go measured.Keep(ctx, func() error { return g.Run(ctx) })
	s.Addr = netip.MustParseAddrPort(g.Addrs()[0].String())
	s.Answer = func(command string) (any, error) {
		switch command {
		case handled:
			return g.Stats().Messages, nil
		case judged:
			return verdicts(s.Events)
		}
		return nil, errors.New("no such command")
	}
	return s, nil
}

// verdict is one device judged offline.
type verdict struct {
	Device   string
	Reason   string
	Lag      time.Duration // from the last sign of life and the timeout to the event
	LastSeen time.Time
}

// verdicts returns all verdicts of the event log.
func verdicts(events *eventlog.Log) ([]verdict, error) {
	all := []verdict{}
	err := measured.EachEvent(events, func(e *liveness.Event) {
		if e.Type == liveness.DeviceOffline {
			all = append(all, verdict{e.Subject, e.Reason.String(), e.Time.Sub(e.LastSeen.Add(e.Timeout)), e.LastSeen})
		}
	})
	return all, err
}

// bare is the least that answers, on one of gnet's event loops.
type bare struct {
	gnet.BuiltinEventEngine

	booted chan gnet.Engine    // room for one; receives the engine once, never closed
	loops  chan gnet.EventLoop // room for one; receives the loop of the first connection, never closed
	answer func(out, input []byte) (answers, rest []byte)
	out    []byte // there is one loop
	read   atomic.Uint64
}

func newBare(answer func(out, input []byte) (answers, rest []byte)) *bare {
	return &bare{booted: make(chan gnet.Engine, 1), loops: make(chan gnet.EventLoop, 1), answer: answer}
}

// OnBoot implements gnet.EventHandler.
func (h *bare) OnBoot(engine gnet.Engine) gnet.Action {
	h.booted <- engine
	return gnet.None
}

// OnOpen implements gnet.EventHandler.
func (h *bare) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	select {
	case h.loops <- c.EventLoop():
	default:
	}
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (h *bare) OnTraffic(c gnet.Conn) gnet.Action {
	input, _ := c.Peek(-1)
	var rest []byte
	h.out, rest = h.answer(h.out[:0], input)
	if len(h.out) > 0 {
		_, _ = c.Write(h.out)
	}
	if n := len(input) - len(rest); n > 0 {
		_, _ = c.Discard(n)
		h.read.Add(uint64(n))
	}
	return gnet.None
}

// appendPongs appends the answers to the whole lines of input, and returns what follows them.
func appendPongs(out, input []byte) (answers, rest []byte) {
	for {
		i := bytes.IndexByte(input, '\n')
		if i < 0 {
			return out, input
		}
		if text := input[:i]; bytes.HasPrefix(text, []byte("PING ")) {
			out = append(out, "PONG "...)
			out = append(out, text[len("PING "):]...)
			out = append(out, '\n')
		}
		input = input[i+1:]
	}
}

func same(_, input []byte) (answers, rest []byte) { return input, nil }

func nothing(_, _ []byte) (answers, rest []byte) { return nil, nil }

// serveGnet starts gnet with its own acceptor.
func serveGnet(ctx context.Context, network string, answer func(out, input []byte) (answers, rest []byte)) (measured.Subject, error) {
	h := newBare(answer)
	go measured.Keep(ctx, func() error { return gnet.Run(h, network+"://"+anyPort, gnet.WithNumEventLoop(1)) })
	fd, err := (<-h.booted).Dup()
	if err != nil {
		return measured.Subject{}, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return measured.Subject{}, os.NewSyscallError("getsockname", err)
	}
	at := name.(*unix.SockaddrInet4)
	s := measured.Subject{Answer: func(string) (any, error) { return h.read.Load(), nil }}
	s.Addr = netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port))
	return s, unix.Close(fd)
}

// accept starts a server of package net that hands its connections to take.
func accept(ctx context.Context, take func(net.Conn) error) (s measured.Subject, err error) {
	l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(ctx, "tcp", anyPort)
	if err != nil {
		return s, err
	}
	go measured.Keep(ctx, func() error {
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			if err := take(c); err != nil {
				return err
			}
		}
	})
	s.Addr = l.Addr().(*net.TCPAddr).AddrPort()
	return s, nil
}

// serveGnetEnroll starts gnet with package net's listener before it. The first connection shows the event loop to hand the others to.
func serveGnetEnroll(ctx context.Context) (s measured.Subject, err error) {
	h := newBare(appendPongs)
	engine, err := gnet.NewClient(h, gnet.WithNumEventLoop(1))
	if err != nil {
		return s, err
	}
	if err := engine.Start(); err != nil {
		return s, err
	}
	var loop gnet.EventLoop
	return accept(ctx, func(c net.Conn) (err error) {
		if loop != nil {
			_, err = loop.Enroll(ctx, c)
		} else if _, err = engine.Enroll(c); err == nil {
			loop = <-h.loops
		}
		return err
	})
}

// serveGoroutines starts a server with a goroutine for each connection.
func serveGoroutines(ctx context.Context) (measured.Subject, error) {
	var conns sync.WaitGroup
	return accept(ctx, func(c net.Conn) error {
		conns.Go(func() { serveConn(c) })
		return nil
	})
}

// serveConn answers the lines of one connection. Its buffer is as long as the longest line that the gateway takes. The answers to what
// one read returned are written together.
func serveConn(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, 1024)
	var out []byte
	for {
		text, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if out, _ = appendPongs(out, text); in.Buffered() > 0 {
			continue
		}
		if _, err := c.Write(out); err != nil {
			return
		}
		out = out[:0]
	}
}
