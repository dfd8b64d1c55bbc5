package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"

	"github.com/panjf2000/gnet/v2"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/selfsigned"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// The servers.
const (
	serverHolter = "holter"
	serverEcho   = "echo"
)

// serveOne starts a server that speaks a dialect.
func serveOne(ctx context.Context, args []string) (s measured.Subject, err error) {
	if len(args) != 2 {
		return s, errors.New("want a server and a dialect")
	}
	all := dialects()
	i := slices.IndexFunc(all, func(d dialect) bool { return d.String() == args[1] })
	if i < 0 {
		return s, fmt.Errorf("no protocol %q", args[1])
	}
	ports, err := serve.FreePorts(ctx, 1)
	if err != nil {
		return s, err
	}
	s.Addr = netip.MustParseAddrPort(ports[0])
	if args[0] == serverEcho {
		startEcho(ctx, ports[0], all[i].transport)
		return s, nil
	}
	return s, startHolter(ctx, &s, all[i])
}

// startHolter starts the registry and the gateway with the settings of holter serve and one protocol.
func startHolter(ctx context.Context, s *measured.Subject, d dialect) (err error) {
	if s.Events, err = eventlog.New(0); err != nil {
		return err
	}
	registry, err := liveness.New(s.Events, liveness.Config{})
	if err != nil {
		return err
	}
	l := gateway.Listener{
		Address: s.Addr.String(), Protocols: []codec.Protocol{d.Protocol}, Packets: d.transport == overUDP,
	}
	if d.transport == overTLS {
		certificate, err := selfsigned.New()
		if err != nil {
			return err
		}
		l.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	g, err := gateway.New(ctx, registry, gateway.Config{Listen: []gateway.Listener{l}, Logger: log})
	if err != nil {
		return err
	}
	go measured.Keep(ctx, func() error { return registry.Run(ctx) })
	go measured.Keep(ctx, func() error { return g.Run(ctx) })
	return nil
}

// echo sends back what it reads, on one of gnet's event loops.
type echo struct {
	gnet.BuiltinEventEngine

	booted chan struct{} // closed when it listens
}

// OnBoot implements gnet.EventHandler.
func (h *echo) OnBoot(gnet.Engine) gnet.Action {
	close(h.booted)
	return gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (h *echo) OnTraffic(c gnet.Conn) gnet.Action {
	input, _ := c.Peek(-1)
	_, _ = c.Write(input)
	_, _ = c.Discard(len(input))
	return gnet.None
}

// startEcho starts an echo, and returns when it listens.
func startEcho(ctx context.Context, address, transport string) {
	h := &echo{booted: make(chan struct{})}
	network := "tcp://"
	if transport == overUDP {
		network = "udp://"
	}
	go measured.Keep(ctx, func() error { return gnet.Run(h, network+address, gnet.WithNumEventLoop(1)) })
	<-h.booted
}
