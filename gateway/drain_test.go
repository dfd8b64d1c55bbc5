package gateway_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// A gateway that drains tells its devices to connect again, lets nobody in, and causes no event.
func TestDrain(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		for _, carrier := range []string{"plain", "TLS"} {
			t.Run(fmt.Sprint(carrier, " elsewhere=", elsewhere), func(t *testing.T) {
				judgesElsewhere = elsewhere
				t.Cleanup(func() { judgesElsewhere = false })
				k, cfg := newKeys(t), gateway.Config{}
				if carrier == "TLS" {
					cfg = k.config()
				}
				r := startRig(t, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Millisecond}}, cfg)
				const n = 60
				var fleet []*device
				for i := range n {
					d := r.dial()
					if carrier == "TLS" {
						d.secure(k.client())
					}
					d.say(fmt.Sprintf("HELLO d-%d\n", i))
					d.expect("OK …")
					fleet = append(fleet, d)
				}
				silent := r.dial() // it says no hello
				testwait.Until(t, "all are in", func() bool { return r.gateway.Stats().Accepted == n+1 })
				r.gateway.Drain(t.Context(), 100*time.Millisecond)
				for i, d := range fleet {
					d.expect("BYE moved…")
					testwait.Until(t, "the session is released", func() bool {
						v := r.device(fmt.Sprint("d-", i))
						return v.Released && !v.Connected && v.State == liveness.Online
					})
				}
				if carrier == "plain" {
					silent.expect("BYE moved…")
				}
				if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr); err == nil {
					t.Error("the port still accepts")
				}
				if st := r.gateway.Stats(); st.Connections != 0 {
					t.Errorf("%d connections are left", st.Connections)
				}
				r.stop()
				if events := r.events(n); len(events) != n || offline(events) != nil {
					t.Errorf("%d events, verdicts %v, want %d events and no verdict", len(events), offline(events), n)
				}
			})
		}
	}
}

// Whoever ends the context of a drain ends the wait.
func TestDrainEnds(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{})
	d := r.dial()
	d.say("HELLO pump\n")
	d.expect("OK …")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.gateway.Drain(ctx, time.Hour)
	d.say("PING 1\n")
	d.expect("PONG 1")
	r.stop()
	d.expect("BYE shutdown")
}

// The message that a device is moved comes behind what its judge is asked for.
func TestDrainWhileAsked(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Judge: silent{}})
	d := r.dial()
	d.say("HELLO pump\n")
	testwait.Until(t, "the judge is asked", func() bool { return r.gateway.Stats().Messages > 0 })
	r.gateway.Drain(t.Context(), time.Millisecond)
	d.expect("BYE moved…")
}
