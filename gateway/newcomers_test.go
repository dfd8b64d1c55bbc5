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
	"github.com/holter-iot/holter/internal/testwait"
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
			testwait.Until(t, "a crowd at the door", func() bool { return r.gateway.Stats().Evicted > 100 })
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

// One that is evicted is told why, and one that has spoken up meanwhile stays.
func TestEvicted(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{MaxNewcomers: 1})
	silent := r.dial()
	testwait.Until(t, "the first", func() bool { return r.gateway.Stats().Newcomers == 1 })
	slow := r.dial()
	if got := silent.hear(); !strings.HasPrefix(got, "ERR full too many connections have not said hello") {
		t.Errorf("the one that was evicted hears %q", got)
	}
	slow.say("HELLO slow ttl=60s\n")
	slow.expect("OK 1 ttl=60")
	next := r.dial()
	slow.say("PING\n")
	slow.expect("PONG")
	next.say("HELLO next ttl=60s\n")
	next.expect("OK 1 ttl=60")
}
