package gateway_test

import (
	"sync"
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/testwait"
	"github.com/holter-iot/holter/liveness"
)

// turnstile is a guard that can hold everybody up.
type turnstile struct {
	gateway.Password

	mu sync.RWMutex // held while nobody passes
}

func (g *turnstile) Admit(id string, token []byte) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Password.Admit(id, token)
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

// listens waits until the source has been deaf so many times, and listens.
func listens(t *testing.T, udp *liveness.Source, times int) {
	t.Helper()
	testwait.Until(t, "the source listens", func() bool { v := udp.View(); return len(v.Deaf) >= times && v.DeafSince.IsZero() })
	at := udp.View()
	testwait.Until(t, "the clock goes on", func() bool { return udp.Now() > at.Listened+at.Behind })
	if v := udp.View(); len(v.Deaf) != times || !v.DeafSince.IsZero() {
		t.Errorf("the source has been deaf %d times, want %d; since: %v", len(v.Deaf), times, v.DeafSince)
	}
}

// A flood from where no device was heard makes the source deaf once; then what it makes the kernel
// drop costs devices nothing, unless one is heard from ever new addresses.
func TestFloodFromElsewhere(t *testing.T) {
	g := &turnstile{Password: "s3cret"}
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: g})
	device, stranger := r.sender(), r.sender()
	const hello = "HELLO pump-1 s3cret ttl=1h"
	device.say(hello)
	device.expect("OK 1 ttl=3600\n")
	udp := udpSource(r)
	g.flood(stranger, func() {})
	listens(t, udp, 1)

	before := gateway.PacketDrops(r.gateway)
	g.flood(stranger, func() { device.say(hello) })
	device.expect("OK 1 ttl=3600\n")
	listens(t, udp, 1)
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
	listens(t, udp, 2)
	for range 2 { // it stays where it is now
		device.say(hello)
		device.expect("OK 1 ttl=3600\n")
	}
	g.flood(stranger, func() {})
	listens(t, udp, 2)
}
