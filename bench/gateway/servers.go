package main

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

const anyPort = "127.0.0.1:0"

// serveHolter starts the registry and the gateway with the settings of holter serve.
func serveHolter(ctx context.Context) (measured.Subject, error) {
	events, err := eventlog.New(0)
	if err != nil {
		return measured.Subject{}, err
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err != nil {
		return measured.Subject{}, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	g, err := gateway.New(ctx, registry, gateway.Config{Listen: gateway.At(anyPort), Logger: log})
	if err != nil {
		return measured.Subject{}, err
	}
	go measured.Keep(ctx, func() error { return registry.Run(ctx) })
	go measured.Keep(ctx, func() error { return g.Run(ctx) })
	return subject(g.Addrs()[0].(*net.TCPAddr).AddrPort(), events), nil
}

// bare is the least that answers a heartbeat, on gnet's event loops.
type bare struct {
	gnet.BuiltinEventEngine

	booted chan gnet.Engine    // room for one; receives the engine once, never closed
	loops  chan gnet.EventLoop // room for one; receives the loop of the first connection, never closed
	out    []byte              // there is one loop
}

func newBare() *bare {
	return &bare{booted: make(chan gnet.Engine, 1), loops: make(chan gnet.EventLoop, 1)}
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
	h.out, rest = appendPongs(h.out[:0], input)
	if n := len(input) - len(rest); n > 0 {
		_, _ = c.Discard(n)
	}
	if len(h.out) > 0 {
		_, _ = c.Write(h.out)
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

// serveGnet starts gnet with its own acceptor.
func serveGnet(ctx context.Context) (measured.Subject, error) {
	h := newBare()
	go measured.Keep(ctx, func() error {
		return gnet.Run(h, "tcp://"+anyPort, gnet.WithNumEventLoop(1))
	})
	fd, err := (<-h.booted).Dup()
	if err != nil {
		return measured.Subject{}, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return measured.Subject{}, os.NewSyscallError("getsockname", err)
	}
	at := name.(*unix.SockaddrInet4)
	return subject(netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)), nil), unix.Close(fd)
}

// serveGnetEnroll starts gnet with package net's listener before it.
func serveGnetEnroll(ctx context.Context) (measured.Subject, error) {
	h := newBare()
	engine, err := gnet.NewClient(h, gnet.WithNumEventLoop(1))
	if err != nil {
		return measured.Subject{}, err
	}
	if err := engine.Start(); err != nil {
		return measured.Subject{}, err
	}
	l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(ctx, "tcp", anyPort)
	if err != nil {
		return measured.Subject{}, err
	}
	go measured.Keep(ctx, func() error { return enroll(ctx, l, engine, h.loops) })
	return subject(l.Addr().(*net.TCPAddr).AddrPort(), nil), nil
}

// enroll accepts connections and hands them over. The first one shows the event loop to hand the others to.
func enroll(ctx context.Context, l net.Listener, engine *gnet.Client, loops <-chan gnet.EventLoop) error {
	var loop gnet.EventLoop
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if loop != nil {
			_, err = loop.Enroll(ctx, c)
		} else if _, err = engine.Enroll(c); err == nil {
			loop = <-loops
		}
		if err != nil {
			return err
		}
	}
}

// serveGoroutines starts a server with a goroutine for each connection.
func serveGoroutines(ctx context.Context) (measured.Subject, error) {
	l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(ctx, "tcp", anyPort)
	if err != nil {
		return measured.Subject{}, err
	}
	go measured.Keep(ctx, func() error {
		var conns sync.WaitGroup
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			conns.Go(func() { serveConn(c) })
		}
	})
	return subject(l.Addr().(*net.TCPAddr).AddrPort(), nil), nil
}

// serveConn answers the lines of one connection. Its buffer is as long as the longest line that the gateway takes; the answers
// to what one read brought are written together.
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
