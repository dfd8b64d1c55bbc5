package gateway_test

import (
	"sync"
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// turnstile is a guard that can hold everybody up.
type turnstile struct {
	gateway.Guard

	mu sync.RWMutex // held while nobody passes
}

func (g *turnstile) Admit(id string, token []byte) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Guard.Admit(id, token)
}

// flood sends more datagrams than a socket can hold, while nobody passes.
func (g *turnstile) flood(from *sender, then func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range 40_000 {
		from.say("HELLO pump-1 wrong")
	}
	then()
}

// listens waits until the gateway has been deaf so many times because datagrams were lost, and listens to
// them. It returns how often that was. When the machine does not run the test, it is deaf, too.
func (r *rig) listens(least uint64) (times uint64) {
	r.t.Helper()
	udp := udpSource(r)
	testwait.Until(r.t, "the source listens", func() bool {
		times, lost := gateway.Losses(r.gateway)
		return times >= least && !lost && udp.View().DeafSince.IsZero()
	})
	at := udp.View()
	testwait.Until(r.t, "the clock goes on", func() bool { return udp.Now() > at.Listened+at.Behind })
	times, _ = gateway.Losses(r.gateway)
	return times
}

// A flood from where no device was heard makes the source deaf; then what it makes the kernel drop
// costs devices nothing, unless one is heard from ever new addresses.
func TestFloodFromElsewhere(t *testing.T) {
	g := &turnstile{Guard: gateway.Password("s3cret")}
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: g})
	device, stranger := r.sender(), r.sender()
	const hello = "HELLO pump-1 s3cret ttl=1h"
	device.say(hello)
	device.expect("OK 1 ttl=3600\n")
	g.flood(stranger, func() {})
	deaf := r.listens(1)

	before := gateway.PacketDrops(r.gateway)
	g.flood(stranger, func() { device.say(hello) })
	device.expect("OK 1 ttl=3600\n")
	if n := r.listens(deaf); n != deaf {
		t.Errorf("the source has been deaf %d times, want %d", n, deaf)
	}
	if gateway.PacketDrops(r.gateway) == before {
		t.Error("the kernel dropped nothing")
	}
	if n := r.gateway.Stats().Packets.Dropped; n < uint64(gateway.PacketDrops(r.gateway)) {
		t.Errorf("%d drops are counted, want all", n)
	}

	for range 3 {
		device = r.sender()
		device.say(hello)
		device.expect("OK 1 ttl=3600\n")
	}
	g.flood(stranger, func() {})
	deaf = r.listens(deaf + 1)
	for range 2 { // it stays where it is now
		device.say(hello)
		device.expect("OK 1 ttl=3600\n")
	}
	g.flood(stranger, func() {})
	if n := r.listens(deaf); n != deaf {
		t.Errorf("the source has been deaf %d times, want %d", n, deaf)
	}
}
