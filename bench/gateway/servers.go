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
	"strings"

	"github.com/panjf2000/gnet/v2"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/selfsigned"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
)

// The servers.
const (
	serverHolter = "holter"
	serverBare   = "bare"
)

// protocols returns those that the load generator speaks as well.
func protocols() []codec.Protocol {
	return []codec.Protocol{line.Protocol{}, frame.Protocol{}, jt808.Protocol{}, teltonika.Protocol{}, gt06.Protocol{}}
}

// serveOne starts a server of a protocol.
func serveOne(ctx context.Context, args []string) (s measured.Subject, err error) {
	if len(args) != 2 {
		return s, errors.New("want a server and a protocol")
	}
	name, secure := strings.CutSuffix(args[1], overTLS)
	all := protocols()
	i := slices.IndexFunc(all, func(p codec.Protocol) bool { return p.Name() == name })
	if i < 0 {
		return s, fmt.Errorf("no protocol %q", name)
	}
	ports, err := serve.FreePorts(ctx, 1)
	if err != nil {
		return s, err
	}
	s.Addr = netip.MustParseAddrPort(ports[0])
	if args[0] == serverBare {
		startBare(ctx, ports[0], all[i])
		return s, nil
	}
	return s, startHolter(ctx, ports[0], all[i], secure)
}

// startHolter starts the registry and the gateway with the settings of holter serve and one protocol.
func startHolter(ctx context.Context, address string, p codec.Protocol, secure bool) error {
	registry, _, err := measured.NewRegistry(ctx)
	if err != nil {
		return err
	}
	l := gateway.Listener{Address: address, Protocols: []codec.Protocol{p}, MaxMessages: -1, MaxBytes: -1} // few connections send as much as many would
	if secure {
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
	go measured.Keep(ctx, func() error { return g.Run(ctx) })
	return nil
}

// bare answers all messages and keeps nothing, on one of gnet's event loops.
type bare struct {
	gnet.BuiltinEventEngine

	protocol codec.Protocol
	booted   chan struct{} // closed when it listens
	message  codec.Message
	outcome  codec.Outcome
	out      []byte
}

// OnBoot implements gnet.EventHandler.
func (h *bare) OnBoot(gnet.Engine) gnet.Action {
	close(h.booted)
	return gnet.None
}

// OnOpen implements gnet.EventHandler.
func (h *bare) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(h.protocol.Codec())
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (h *bare) OnTraffic(c gnet.Conn) gnet.Action {
	talk := c.Context().(codec.Codec)
	input, _ := c.Peek(-1)
	taken := 0
	for h.out = h.out[:0]; taken < len(input); {
		h.message = codec.Message{}
		n, err := talk.Next(input[taken:], &h.message)
		if err != nil {
			return gnet.Close
		}
		if n == 0 {
			break
		}
		taken += n
		h.out = talk.Reply(h.out, &h.message, &h.outcome)
	}
	_, _ = c.Write(h.out)
	_, _ = c.Discard(taken)
	return gnet.None
}

// startBare starts a bare server, and returns when it listens.
func startBare(ctx context.Context, address string, p codec.Protocol) {
	h := &bare{protocol: p, booted: make(chan struct{}), outcome: codec.Outcome{Epoch: 1, Timeout: interval}}
	go measured.Keep(ctx, func() error { return gnet.Run(h, "tcp://"+address, gnet.WithNumEventLoop(1)) })
	<-h.booted
}
