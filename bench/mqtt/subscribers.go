package mqtt

import (
	"bufio"
	"context"
	"errors"
	"net"
	neturl "net/url"
	"sync/atomic"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

const (
	subscriberBridge = "bridge"
	subscriberPaho   = "paho"
	subscriberTuned  = "paho-tuned"
)

func subscribers() []string { return []string{subscriberBridge, subscriberPaho, subscriberTuned} }

const (
	beatPattern = "fleet/{device}/beat"
	beatFilter  = "fleet/+/beat"
)

// counting returns a subscriber that tells what it has counted.
func counting(count func() counts) measured.Subject {
	return measured.Subject{Answer: func(command string) (any, error) {
		if command != askCounts {
			return nil, errors.New("no such command")
		}
		return count(), nil
	}}
}

// subscribeBridge starts a registry and a bridge to the broker at a URL.
func subscribeBridge(ctx context.Context, url string) (measured.Subject, error) {
	_, registry, err := newRegistry(ctx)
	if err != nil {
		return measured.Subject{}, err
	}
	beats, err := convention.New(convention.Spec{Name: "bench", Rules: []convention.Rule{{Topic: beatPattern}}})
	if err != nil {
		return measured.Subject{}, err
	}
	b, err := mqttbridge.New(registry, mqttbridge.Config{ //nolint:contextcheck // a source ends with the registry's Run
		URL: url, Conventions: []convention.Convention{beats}, Logger: quietLogger(),
	})
	if err != nil {
		return measured.Subject{}, err
	}
	go measured.Keep(ctx, func() error { return b.Run(ctx) })
	for late := time.After(patience); !b.View().Listening; {
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			return measured.Subject{}, errors.New("the bridge does not listen: " + b.View().LastError)
		case <-ctx.Done():
			return measured.Subject{}, ctx.Err()
		}
	}
	return counting(func() counts {
		v := b.View()
		applied := v.Beats
		for _, n := range v.Rejected {
			applied -= n
		}
		return counts{Applied: applied, Lost: v.Messages - applied + v.Dropped}
	}), nil
}

// subscribePaho starts a client as its documentation shows it, which counts.
func subscribePaho(url string) (measured.Subject, error) {
	var n atomic.Uint64
	client := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID("bare"))
	return subscribe(client, &n, func(paho.Client, paho.Message) { n.Add(1) })
}

// subscribeTuned starts a client that counts and does no more than it has to: it reads from a buffer, as the bridge does, and does not
// match topics that the broker has matched.
func subscribeTuned(url string) (measured.Subject, error) {
	var n atomic.Uint64
	o := paho.NewClientOptions().AddBroker(url).SetClientID("bare")
	o.SetDefaultPublishHandler(func(paho.Client, paho.Message) { n.Add(1) })
	o.SetCustomOpenConnectionFn(func(u *neturl.URL, o paho.ClientOptions) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: o.ConnectTimeout}).Dial("tcp", u.Host)
		if err != nil {
			return nil, err
		}
		return &buffered{conn, bufio.NewReaderSize(conn, 4096)}, nil
	})
	return subscribe(paho.NewClient(o), &n, nil)
}

func subscribe(client paho.Client, n *atomic.Uint64, handle paho.MessageHandler) (measured.Subject, error) {
	for _, do := range []func() paho.Token{client.Connect, func() paho.Token { return client.Subscribe(beatFilter, 0, handle) }} {
		t := do()
		if !t.WaitTimeout(patience) {
			return measured.Subject{}, errors.New("no answer from the broker")
		}
		if err := t.Error(); err != nil {
			return measured.Subject{}, err
		}
	}
	return counting(func() counts { return counts{Applied: n.Load()} }), nil
}

// buffered is a connection that is read in larger pieces than it is asked for.
type buffered struct {
	net.Conn

	in *bufio.Reader
}

// Read implements net.Conn.
func (b *buffered) Read(p []byte) (int, error) { return b.in.Read(p) }
