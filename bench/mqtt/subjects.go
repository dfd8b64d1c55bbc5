package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

// The brokers.
const (
	brokerHolter    = "holter"
	brokerMosquitto = "mosquitto"
	brokerMochi     = "mochi"
)

func brokers() []string { return []string{brokerMosquitto, brokerMochi, brokerHolter} }

// The commands of the processes.
const (
	askCounts   = "counts"
	askVerdicts = "verdicts"
)

// counts are what a subscriber has counted.
type counts struct {
	Applied uint64 // messages that were used
	Lost    uint64 // messages that came and were not used
}

// child starts a broker, or a subscriber to the broker whose URL follows.
func child(ctx context.Context, args []string) (measured.Subject, error) {
	if len(args) == 1 {
		switch args[0] {
		case brokerHolter:
			return serveHolter(ctx)
		case brokerMochi:
			return serveMochi()
		case brokerMosquitto:
			return serveMosquitto(ctx)
		}
	}
	if len(args) == 2 {
		switch args[0] {
		case subscriberBridge:
			return subscribeBridge(ctx, args[1])
		case subscriberPaho:
			return subscribePaho(args[1])
		case subscriberTuned:
			return subscribeTuned(args[1])
		}
	}
	return measured.Subject{}, fmt.Errorf("cannot start %q", args)
}

func quietLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// verdict is one device judged offline.
type verdict struct {
	Device string
	Reason string
	At     time.Time
}

// verdicts are what an event log holds.
type verdicts struct {
	All  []verdict
	Deaf int // how often the source was deaf
}

// atBroker returns a broker with an event log, which is nil but for holter.
func atBroker(addr netip.AddrPort, events *eventlog.Log) measured.Subject {
	return measured.Subject{Hello: measured.Hello{Addr: addr}, Events: events, Answer: func(command string) (any, error) {
		if command != askVerdicts {
			return nil, errors.New("no such command")
		}
		var v verdicts
		err := measured.EachEvent(events, func(e *liveness.Event) {
			switch e.Type { //nolint:exhaustive // the others are of no interest
			case liveness.DeviceOffline:
				v.All = append(v.All, verdict{e.Subject, e.Reason.String(), e.Time})
			case liveness.SourceDeaf:
				v.Deaf++
			}
		})
		return v, err
	}}
}

// serveHolter starts the registry and the embedded broker with the settings of holter serve.
func serveHolter(ctx context.Context) (measured.Subject, error) {
	events, registry, err := newRegistry(ctx)
	if err != nil {
		return measured.Subject{}, err
	}
	b, err := broker.New(ctx, registry, broker.Config{Listen: serve.AnyPort, Logger: quietLogger()})
	if err != nil {
		return measured.Subject{}, err
	}
	go measured.Keep(ctx, func() error { return b.Run(ctx) })
	return atBroker(b.Addr().(*net.TCPAddr).AddrPort(), events), nil
}

func newRegistry(ctx context.Context) (*eventlog.Log, *liveness.Registry, error) {
	events, err := eventlog.New(0)
	if err != nil {
		return nil, nil, err
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err != nil {
		return nil, nil, err
	}
	go measured.Keep(ctx, func() error { return registry.Run(ctx) })
	return events, registry, nil
}

// serveMochi starts mochi with its defaults.
func serveMochi() (measured.Subject, error) {
	server := mochi.New(&mochi.Options{Logger: quietLogger()})
	listener := listeners.NewTCP(listeners.Config{ID: "tcp", Address: serve.AnyPort})
	if err := errors.Join(server.AddHook(new(admitAll), nil), server.AddListener(listener)); err != nil {
		return measured.Subject{}, err
	}
	if err := server.Serve(); err != nil {
		return measured.Subject{}, err
	}
	addr, err := netip.ParseAddrPort(listener.Address())
	return atBroker(addr, nil), err
}

// admitAll is a hook that admits every client: without one, mochi admits none.
type admitAll struct{ mochi.HookBase }

// ID implements mochi.Hook.
func (*admitAll) ID() string { return "admit-all" }

// Provides implements mochi.Hook.
func (*admitAll) Provides(b byte) bool {
	return b == mochi.OnConnectAuthenticate || b == mochi.OnACLCheck
}

// OnConnectAuthenticate implements mochi.Hook.
func (*admitAll) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

// OnACLCheck implements mochi.Hook.
func (*admitAll) OnACLCheck(*mochi.Client, string, bool) bool { return true }

// serveMosquitto starts mosquitto, which ends with this process.
func serveMosquitto(ctx context.Context) (s measured.Subject, err error) {
	dir, err := os.MkdirTemp("", "holter-bench-")
	if err != nil {
		return s, err
	}
	server, err := serve.Mosquitto(ctx, dir, filepath.Join(dir, "mosquitto.log"))
	if err != nil {
		return s, errors.Join(err, os.RemoveAll(dir))
	}
	s = atBroker(netip.MustParseAddrPort(server.MQTT), nil)
	s.PID = server.PID()
	s.Stop = func() {
		server.Stop()
		_ = os.RemoveAll(dir)
	}
	return s, nil
}
