package gateway_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// squat opens n connections again and again that say nothing, until stop is called.
func squat(t *testing.T, address string, n int) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for {
				c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
				if err == nil {
					go func() { <-done; _ = c.Close() }()
					_, _ = io.Copy(io.Discard, c) // until it is closed
					_ = c.Close()
				}
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	return func() { close(done); all.Wait() }
}

// Whoever connects and says nothing, and does so again when he is thrown out, keeps nobody out who has something to
// say: neither by taking up all room for newcomers, nor all for connections.
func TestSlots(t *testing.T) {
	for name, cfg := range map[string]gateway.Config{
		"newcomers":   {MaxConnections: 200, MaxNewcomers: 16},
		"connections": {MaxConnections: 48, MaxNewcomers: 48},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, liveness.Config{}, cfg)
			stop := squat(t, r.addr, 64)
			defer stop()
			testwait.Until(t, "a crowd at the door", func() bool { return r.gateway.Stats().Newcomers >= 48 })
			var served []*device
			for i := range 40 {
				d := r.dialUntil(fmt.Sprintf("HELLO honest-%d ttl=60s\n", i))
				served = append(served, d)
			}
			for _, d := range served {
				d.say("PING\n")
				d.expect("PONG")
			}
			if st := r.gateway.Stats(); st.Newcomers > 64 || st.Connections > cfg.MaxConnections+64 {
				t.Errorf("%d newcomers, %d connections", st.Newcomers, st.Connections)
			}
		})
	}
}

// A silent connection over TLS goes for one of an event loop that has a table of descriptors of its own.
func TestEvictedOverTLS(t *testing.T) {
	useTables(t, 5000)
	k := newKeys(t)
	r := startRig(t, liveness.Config{}, gateway.Config{
		MaxNewcomers: 1, Listen: []gateway.Listener{{Address: "127.0.0.1:0"}, {Address: "127.0.0.1:0", TLS: k.server}},
	})
	secured := &rig{t: t, addr: r.gateway.Addrs()[1].String()}
	silent := secured.dialTLS(k)
	testwait.Until(t, "it has been silent for as long as it may, and goes for another", func() bool {
		r.dial()
		return r.gateway.Stats().Evicted > 0
	})
	silent.expect("ERR full…")
}

// One that is evicted is told why, and one that has spoken up meanwhile stays.
func TestEvicted(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{MaxConnections: 2, MaxNewcomers: 2})
	var silent []*device
	for i := range 2 { // one after the other, as it is the older who goes
		silent = append(silent, r.dial())
		testwait.Until(t, "a newcomer", func() bool { return r.gateway.Stats().Newcomers == i+1 })
	}
	for i, d := range silent {
		next, id := r.dial(), fmt.Sprintf("next-%d", i)
		if got := d.hear(); !strings.HasPrefix(got, "ERR full too many connections have not said hello") {
			t.Errorf("the one that was evicted hears %q", got)
		}
		next.say("HELLO " + id + " ttl=60s\n")
		next.expect("OK 1 ttl=60")
	}
}
