package mqtt

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	pahomqtt "github.com/eclipse/paho.mqtt.golang"
	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/broker"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// The subjects: subscribers, and brokers.
const (
	bridge    = "bridge"
	paho      = "paho"
	pahoTuned = "paho-tuned"

	mosquitto   = "mosquitto"
	mochiBroker = "mochi"
	holter      = "holter"
)

// subject is what is measured, in a process of its own.
type subject struct {
	measurement, name string

	start   func(ctx context.Context, at string) (measured.Subject, error) // at is the broker's URL for a subscriber, a directory for a broker
	measure func(b *bench, ctx context.Context, name string) error
}

func subjects() []subject {
	return []subject{
		{"relay", bridge, subscribeBridge, (*bench).relay},
		{"relay", paho, subscribePaho(false), (*bench).relay},
		{"relay", pahoTuned, subscribePaho(true), (*bench).relay},
		{"silence", mosquitto, serveMosquitto, (*bench).silence},
		{"silence", mochiBroker, serveMochi, (*bench).silence},
		{"silence", holter, serveHolter, (*bench).silence},
	}
}

// child starts the subject that the first argument names.
func child(ctx context.Context, args []string) (measured.Subject, error) {
	i := slices.IndexFunc(subjects(), func(s subject) bool { return s.name == args[0] })
	return subjects()[i].start(ctx, args[1])
}

// patience is how long a subscriber may take to listen.
const patience = 20 * time.Second

func quietLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// serveHolter starts the registry and the embedded broker. Its answer to any command is when it judged which client for silence.
func serveHolter(ctx context.Context, _ string) (s measured.Subject, err error) {
	registry, events, err := measured.NewRegistry(ctx)
	if err != nil {
		return s, err
	}
	b, err := broker.New(ctx, registry, broker.Config{Listen: serve.AnyPort, Logger: quietLogger()})
	if err != nil {
		return s, err
	}
	go measured.Keep(ctx, func() error { return b.Run(ctx) })
	s.Addr = b.Addr().(*net.TCPAddr).AddrPort()
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

// serveMochi starts mochi with its defaults.
func serveMochi(context.Context, string) (s measured.Subject, err error) {
	server := mochi.New(&mochi.Options{Logger: quietLogger()})
	listener := listeners.NewTCP(listeners.Config{ID: "tcp", Address: serve.AnyPort})
	if err := errors.Join(server.AddHook(new(admitAll), nil), server.AddListener(listener), server.Serve()); err != nil {
		return s, err
	}
	s.Addr, err = netip.ParseAddrPort(listener.Address())
	return s, err
}

// admitAll is a hook that admits every client: without one, mochi admits none.
type admitAll struct{ mochi.HookBase }

// Provides implements mochi.Hook.
func (*admitAll) Provides(b byte) bool { return b == mochi.OnConnectAuthenticate }

// OnConnectAuthenticate implements mochi.Hook.
func (*admitAll) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

// serveMosquitto starts mosquitto, which ends with this process, with its files in a directory.
func serveMosquitto(ctx context.Context, dir string) (s measured.Subject, err error) {
	server, err := serve.Mosquitto(ctx, dir, filepath.Join(dir, "mosquitto.log"))
	if err != nil {
		return s, err
	}
	s.Addr, s.PID, s.Stop = netip.MustParseAddrPort(server.MQTT), server.PID(), server.Stop
	return s, nil
}

// counts are what a subscriber has counted. It is its answer to any command.
type counts struct {
	Applied uint64 // messages that were used
	Lost    uint64 // messages that came and were not used
}

// subscribeBridge starts a registry and a bridge to a broker.
func subscribeBridge(ctx context.Context, url string) (s measured.Subject, err error) {
	registry, _, err := measured.NewRegistry(ctx)
	if err != nil {
		return s, err
	}
	beats, err := convention.New(convention.Spec{Name: "bench", Rules: []convention.Rule{{Topic: "fleet/{device}/beat"}}})
	if err != nil {
		return s, err
	}
	b, err := mqttbridge.New(registry, mqttbridge.Config{ //nolint:contextcheck // a source ends with the registry's Run
		URL: url, Conventions: []convention.Convention{beats}, Logger: quietLogger(),
	})
	if err != nil {
		return s, err
	}
	go measured.Keep(ctx, func() error { return b.Run(ctx) })
	for late := time.Now().Add(patience); !b.View().Listening; {
		if err := run.Wait(ctx, time.Millisecond); err != nil || time.Now().After(late) {
			return s, errors.Join(errors.New("the bridge does not listen: "+b.View().LastError), err)
		}
	}
	s.Answer = func(string) (any, error) {
		v := b.View()
		applied := v.Beats
		for _, n := range v.Rejected {
			applied -= n
		}
		return counts{Applied: applied, Lost: v.Messages - applied + v.Dropped}, nil
	}
	return s, nil
}

// subscribePaho starts a client as its documentation shows it, which counts. A tuned one counts and does no more than it has to: it reads
// from a buffer, as the bridge does, and does not match topics that the broker has matched.
func subscribePaho(tuned bool) func(context.Context, string) (measured.Subject, error) {
	return func(_ context.Context, url string) (s measured.Subject, err error) {
		var n atomic.Uint64
		s.Answer = func(string) (any, error) { return counts{Applied: n.Load()}, nil }
		handle := func(pahomqtt.Client, pahomqtt.Message) { n.Add(1) }
		o := pahomqtt.NewClientOptions().AddBroker(url).SetClientID("bare")
		if tuned {
			o.SetDefaultPublishHandler(handle).SetCustomOpenConnectionFn(dialBuffered)
			handle = nil
		}
		client := pahomqtt.NewClient(o)
		for _, do := range []func() pahomqtt.Token{client.Connect, func() pahomqtt.Token { return client.Subscribe("fleet/+/beat", 0, handle) }} {
			t := do()
			if !t.WaitTimeout(patience) {
				return s, errors.New("no answer from the broker")
			}
			if err := t.Error(); err != nil {
				return s, err
			}
		}
		return s, nil
	}
}

// buffered is a connection that is read in larger pieces than it is asked for.
type buffered struct {
	net.Conn

	in *bufio.Reader
}

func dialBuffered(u *neturl.URL, o pahomqtt.ClientOptions) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: o.ConnectTimeout}).Dial("tcp", u.Host)
	return &buffered{conn, bufio.NewReaderSize(conn, 4096)}, err
}

// Read implements net.Conn.
func (b *buffered) Read(p []byte) (int, error) { return b.in.Read(p) }
