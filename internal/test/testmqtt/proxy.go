package testmqtt

import (
	"context"
	"fmt"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Direction is a direction of a [Link].
type Direction uint8

const (
	// Both directions.
	Both Direction = iota
	// Up is toward the broker.
	Up
	// Down is from the broker.
	Down
)

func (d Direction) streams() []string {
	switch d {
	case Up:
		return []string{"upstream"}
	case Down:
		return []string{"downstream"}
	default:
		return []string{"upstream", "downstream"}
	}
}

// Link is a network between clients and a broker that can fail, by means of toxiproxy. Its methods
// are for the test's goroutine.
type Link struct {
	tb    testing.TB
	proxy *toxiproxy.Proxy
	added []string // toxics
}

// Proxy starts a network in front of a broker, given as host:port or a URL without a path. It ends with the test.
func Proxy(tb testing.TB, upstream string) *Link {
	tb.Helper()
	if _, after, ok := strings.Cut(upstream, "://"); ok {
		upstream = after
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &Link{tb: tb, proxy: toxiproxy.NewProxy(server, "broker", "127.0.0.1:0", upstream)}
	if err := l.proxy.Start(); err != nil {
		tb.Fatalf("testmqtt: start a proxy: %v", err)
	}
	tb.Cleanup(func() {
		l.remove()
		l.proxy.Stop()
	})
	return l
}

// Addr is the host and port that clients connect to.
func (l *Link) Addr() string { return l.proxy.Listen }

// URL is what clients connect to.
func (l *Link) URL() string { return "tcp://" + l.Addr() }

// Cut drops everything sent in a direction, on existing and new connections. Heal closes the
// existing ones, because bytes were lost.
func (l *Link) Cut(d Direction) {
	l.tb.Helper()
	l.add(d, "timeout", `{"timeout":0}`)
}

// Stall holds back what is sent in a direction until Heal, in order and without loss, like TCP on a
// network that comes back soon.
func (l *Link) Stall(d Direction) {
	l.tb.Helper()
	l.add(d, "latency", `{"latency":86400000}`)
}

// Break closes all connections and refuses new ones until Heal.
func (l *Link) Break() { l.proxy.Stop() }

// Heal ends Cut, Stall and Break.
func (l *Link) Heal() {
	l.tb.Helper()
	l.remove()
	if err := l.proxy.Start(); err != nil && err != toxiproxy.ErrProxyAlreadyStarted { //nolint:errorlint // it is returned as it is
		l.tb.Fatalf("testmqtt: start a proxy again: %v", err)
	}
}

func (l *Link) add(d Direction, kind, attributes string) {
	l.tb.Helper()
	for _, stream := range d.streams() {
		name := kind + "_" + stream
		text := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"toxicity":1,"attributes":%s}`, name, kind, stream, attributes)
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
			l.tb.Fatalf("testmqtt: cut a network: %v", err)
		}
		l.added = append(l.added, name)
	}
}

func (l *Link) remove() {
	for _, name := range l.added {
		if err := l.proxy.Toxics.RemoveToxic(context.Background(), name); err != nil {
			l.tb.Errorf("testmqtt: heal a network: %v", err)
		}
	}
	l.added = nil
}
