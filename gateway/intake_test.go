package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// A connection that sends more than it may is read more slowly: nothing is lost, its device stays online, and it is
// seen.
func TestSlowed(t *testing.T) {
	k := newKeys(t)
	for name, l := range map[string]gateway.Listener{
		"messages":          {MaxMessages: 400, MaxBytes: -1},
		"bytes":             {MaxMessages: -1, MaxBytes: 7000},
		"messages over TLS": {MaxMessages: 400, MaxBytes: -1, TLS: k.listener().TLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.Address = "127.0.0.1:0"
			r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{l}})
			d := r.dial()
			if l.TLS != nil {
				d = d.secure(k.client())
			}
			d.say("HELLO flooder ttl=1s\n")
			d.expect("OK 1 ttl=1")
			n, pad := 4600, "" // 600 more than may come at once
			if l.MaxMessages < 0 {
				n, pad = 2400, strings.Repeat("x", 25) // some 10,000 bytes more
			}
			begin := time.Now()
			go func() {
				var all strings.Builder
				for i := range n {
					fmt.Fprintf(&all, "PING %d%s\n", i, pad)
				}
				_, _ = d.conn.Write([]byte(all.String()))
			}()
			for i := range n {
				d.expect(fmt.Sprintf("PONG %d%s", i, pad))
			}
			if took := time.Since(begin); took < time.Second {
				t.Errorf("%d heartbeats were heard within %v", n, took)
			}
			if st := r.gateway.Stats(); st.Slowed != 1 {
				t.Errorf("it was slowed down %d times, want once", st.Slowed)
			}
			if v := r.device("flooder"); v.State != liveness.Online || v.Seq != 1 {
				t.Errorf("it is %v by event %d, want online by its first", v.State, v.Seq)
			}
		})
	}
}

// A flood holds up neither the clock nor the others: who falls silent beside it is judged in time.
func TestFloodBesideSilence(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Loops: 1})
	flooder, silent := r.dial(), r.dial()
	flooder.say("HELLO flooder ttl=60s\n")
	flooder.expect("OK 1 ttl=60")
	silent.say("HELLO silent ttl=1s\n")
	silent.expect("OK 1 ttl=1")
	go func() {
		line := []byte(strings.Repeat("PING\n", 10_000))
		for {
			if _, err := flooder.conn.Write(line); err != nil {
				return
			}
		}
	}()
	go func() { _, _ = flooder.in.WriteTo(discard{}) }()
	silent.expect("BYE silence")
}

// discard takes everything.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// A connection may send too much before its hello, too.
func TestTooFastBeforeHello(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Guard: secret, Listen: []gateway.Listener{{Address: "127.0.0.1:0", MaxMessages: 2}}})
	d := r.dial()
	d.say(strings.Repeat("HELLO pump auth=hmac\n", 100))
	testwait.Until(t, "the connection is read more slowly", func() bool { return r.gateway.Stats().Slowed > 0 })
	d.expect("CHALLENGE …")
	if n := r.gateway.Stats().Panics; n > 0 {
		t.Errorf("%d panics", n)
	}
}
