package mqtt

import (
	"bufio"
	"context"
	"errors"
	"net"
	neturl "net/url"
	"sync/atomic"
	"time"

	pahomqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// counts are what a subscriber has counted. It is its answer to any command.
type counts struct {
	Applied uint64 // messages that were used
	Lost    uint64 // messages that came and were not used
}

// subscribeBridge starts a registry and a bridge to a broker.
func subscribeBridge(ctx context.Context, url, _ string) (s measured.Subject, err error) {
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
func subscribePaho(tuned bool) func(context.Context, string, string) (measured.Subject, error) {
	return func(_ context.Context, url, _ string) (s measured.Subject, err error) {
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
