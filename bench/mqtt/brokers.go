package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/selfsigned"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	mqttcodec "github.com/holter-iot/holter/gateway/codec/mqtt"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/access"
)

// How a broker listens, which is its second argument. Its first is a directory.
const (
	plain  = "plain"
	secure = "tls"
	relays = "relays" // plain; mosquitto drops no message that waits for a subscriber
)

const (
	queueLength = 1000 // messages that a broker holds for one client
	// brokerSettings says how the brokers are set up.
	brokerSettings = "The brokers persist nothing and log errors only. Each holds up to 1,000 messages for a client. mosquitto: " +
		"`max_queued_messages 1000`, `set_tcp_nodelay true`, no other setting (20 messages in flight); in the fan-in and the fan-out " +
		"`max_queued_messages 0`, because with a bound mosquitto 2.0.11 drops messages of QoS 1 to a busy subscriber, however few wait. " +
		"mochi: `MaximumClientWritesPending: 1000`, no other setting (1,024 in flight). holter: its defaults (64 in flight), without " +
		"bounds on what a connection sends."
)

func quietLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// config returns the configuration of TLS, nil without.
func config(listen string) (*tls.Config, error) {
	if listen != secure {
		return nil, nil
	}
	certificate, err := selfsigned.New()
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, err
}

// serveHolter starts the registry, and the gateway with the broker on its event loop. Its answer to any command is when it judged which
// client for silence.
func serveHolter(ctx context.Context, _, listen string) (s measured.Subject, err error) {
	registry, events, err := measured.NewRegistry(ctx)
	if err != nil {
		return s, err
	}
	broker, err := mqtt.New(mqtt.Config{MaxQueue: queueLength, Logger: quietLogger()})
	if err != nil {
		return s, err
	}
	guard, err := access.New(access.Config{})
	if err != nil {
		return s, err
	}
	secret, err := config(listen)
	if err != nil {
		return s, err
	}
	g, err := gateway.New(ctx, registry, gateway.Config{Logger: quietLogger(), Listen: []gateway.Listener{{
		Address: serve.AnyPort, Protocols: []codec.Protocol{&mqttcodec.Protocol{Broker: broker, Access: guard}}, TLS: secret,
		MaxMessages: -1, MaxBytes: -1, // few clients send as much as many would
	}}})
	if err != nil {
		return s, err
	}
	go measured.Keep(ctx, func() error { return broker.Run(ctx) })
	go measured.Keep(ctx, func() error { return g.Run(ctx) })
	s.Addr = netip.MustParseAddrPort(g.Addrs()[0].String())
	s.Answer = func(string) (any, error) {
		verdicts := make(map[string]time.Time)
		return verdicts, measured.EachEvent(events, func(e *liveness.Event) {
			if e.Type == liveness.DeviceOffline && e.Reason == liveness.Silence {
				verdicts[e.Subject] = e.Time
			}
		})
	}
	return s, nil
}

// serveMochi starts mochi.
func serveMochi(_ context.Context, _, listen string) (s measured.Subject, err error) {
	secret, err := config(listen)
	if err != nil {
		return s, err
	}
	capabilities := mochi.NewDefaultServerCapabilities()
	capabilities.MaximumClientWritesPending = queueLength
	server := mochi.New(&mochi.Options{Logger: quietLogger(), Capabilities: capabilities})
	listener := listeners.NewTCP(listeners.Config{ID: "tcp", Address: serve.AnyPort, TLSConfig: secret})
	if err := errors.Join(server.AddHook(new(admitAll), nil), server.AddListener(listener), server.Serve()); err != nil {
		return s, err
	}
	s.Addr, err = netip.ParseAddrPort(listener.Address())
	return s, err
}

// admitAll is a hook that admits every client to all topics: without one, mochi admits none.
type admitAll struct{ mochi.HookBase }

// Provides implements mochi.Hook.
func (*admitAll) Provides(b byte) bool {
	return b == mochi.OnConnectAuthenticate || b == mochi.OnACLCheck
}

// OnConnectAuthenticate implements mochi.Hook.
func (*admitAll) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

// OnACLCheck implements mochi.Hook.
func (*admitAll) OnACLCheck(*mochi.Client, string, bool) bool { return true }

// serveMosquitto starts mosquitto, which ends with this process, with its files in a directory.
func serveMosquitto(ctx context.Context, dir, listen string) (s measured.Subject, err error) {
	settings := "max_queued_messages 1000\nset_tcp_nodelay true\n"
	switch listen {
	case relays:
		settings = "max_queued_messages 0\n"
	case secure:
		cert, key, err := selfsigned.Write(dir)
		if err != nil {
			return s, err
		}
		settings += "certfile " + cert + "\nkeyfile " + key + "\nuser root\n" // who may read them
	}
	server, err := serve.Mosquitto(ctx, dir, filepath.Join(dir, "mosquitto.log"), settings)
	if err != nil {
		return s, err
	}
	s.Addr, s.PID, s.Stop = netip.MustParseAddrPort(server.MQTT), server.PID(), server.Stop
	return s, nil
}
