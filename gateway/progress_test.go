package gateway_test

import (
	"slices"
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// stuckGuard admits all, and does not come back while it is locked.
type stuckGuard struct {
	gateway.Guard

	came, free chan struct{} // the guard closes came, once; the test closes free
}

func (g stuckGuard) Admit(id string, token []byte) bool {
	if id == "stuck" {
		close(g.came)
		<-g.free
	}
	return g.Guard.Admit(id, token)
}

// grown returns which counts have grown.
func grown(before, after []uint64) (all []bool) {
	for i := range before {
		all = append(all, after[i] > before[i])
	}
	return all
}

// all reports whether every part is so.
func all(parts []bool) bool { return !slices.Contains(parts, false) }

// An event loop that does not come back stands still, and the other goes on.
func TestProgressOfLoops(t *testing.T) {
	t.Parallel()
	guard := stuckGuard{gateway.Password(""), make(chan struct{}), make(chan struct{})}
	r := startRig(t, liveness.Config{}, gateway.Config{Loops: 2, Guard: guard})
	first := r.gateway.Operator().Progress()
	testwait.Until(t, "both loops go on", func() bool { return all(grown(first, r.gateway.Operator().Progress())) })
	c := r.dial()
	c.say("HELLO stuck\n")
	<-guard.came
	stuck := r.gateway.Operator().Progress()
	testwait.Until(t, "the other loop goes on for long", func() bool {
		now := r.gateway.Operator().Progress()
		return now[0] > stuck[0]+10 || now[1] > stuck[1]+10
	})
	if now := grown(stuck, r.gateway.Operator().Progress()); all(now) {
		t.Errorf("the stuck loop has gone on: %v", now)
	}
	close(guard.free)
	again := r.gateway.Operator().Progress()
	testwait.Until(t, "both loops go on again", func() bool { return all(grown(again, r.gateway.Operator().Progress())) })
}

// Readers of datagrams that do not come back stand still.
func TestProgressOfPackets(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0")})
	first := r.gateway.Operator().Progress()
	testwait.Until(t, "all go on", func() bool { return all(grown(first, r.gateway.Operator().Progress())) })
	s := r.sender()
	gateway.StallPackets(r.gateway, func() {
		s.say("HELLO stuck\n")
		testwait.Until(t, "a reader stands still", func() bool {
			before := r.gateway.Operator().Progress()
			loops := r.gateway.Operator().Progress()[0]
			testwait.Until(t, "the event loop goes on for long", func() bool { return r.gateway.Operator().Progress()[0] > loops+10 })
			return !all(grown(before, r.gateway.Operator().Progress()))
		})
	})
	again := r.gateway.Operator().Progress()
	testwait.Until(t, "all go on again", func() bool { return all(grown(again, r.gateway.Operator().Progress())) })
}

// While no event can be stored all clocks stand still, and yet all that hears goes on.
func TestProgressWithoutDatabase(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := startGated(t, liveness.Config{Outbox: 1}, gateway.Config{Listen: packets("127.0.0.1:0")}, gate)
	t.Cleanup(func() { close(gate) }) // else the end waits for the log
	s := r.sender()
	s.say("HELLO a ttl=1s\n")
	testwait.Until(t, "the clocks stand still", func() bool { return r.gateway.Source().View().Held })
	goOn := func() {
		before := r.gateway.Operator().Progress()
		testwait.Until(t, "all go on", func() bool { return all(grown(before, r.gateway.Operator().Progress())) })
	}
	goOn() // a pulse that began before moves the clock
	listened := r.gateway.Source().Now()
	goOn()
	if now := r.gateway.Source().View(); !now.Held || now.Listened > listened {
		t.Errorf("the clock goes on, from %v: %+v", listened, now)
	}
}
