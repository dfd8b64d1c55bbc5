package gateway_test

import (
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/liveness"
)

// slowed makes handshakes wait for the returned func to be called.
func (k keys) slowed() (keys, func()) {
	gate := make(chan struct{})
	k.server.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		<-gate
		return nil, nil
	}
	return k, sync.OnceFunc(func() { close(gate) })
}

// witness is a plain listener beside one that speaks TLS.
func (k keys) witness(cfg gateway.Config) gateway.Config {
	cfg.Listen = []gateway.Listener{k.listener(), []gateway.Listener{{Address: "127.0.0.1:0"}}[0]}
	return cfg
}

// TestHandshakesWait: devices whose handshakes the gateway has not got to are not judged before it
// has, and has heard them.
func TestHandshakesWait(t *testing.T) {
	t.Parallel()
	const devices = 40
	k, release := newKeys(t).slowed()
	defer release()
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: time.Second, CloseGrace: time.Second}}
	// The timeout is shorter than what the gateway takes for the handshakes, which does not count.
	r := startRig(t, fleet, k.witness(gateway.Config{MaxHandshakes: 1, HandshakeTimeout: time.Second}))
	all := r.registry.Sources()
	source := all[slices.IndexFunc(all, func(s *liveness.Source) bool { return s.Name() == "gateway-tls" })]
	var ready sync.WaitGroup
	for i := range devices {
		// Each was connected before, as the registry remembers.
		id := fmt.Sprint("d-", i)
		var s liveness.Session
		if _, err := source.Open(&s, id, liveness.Hello{}, nil, source.Time(time.Now())); err != nil {
			t.Fatal(err)
		}
		s.Close(source.Time(time.Now()), liveness.Closed)
		d := r.dial()
		tc := tls.Client(d.conn, k.client())
		ready.Go(func() {
			if err := tc.HandshakeContext(t.Context()); err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
			if _, err := fmt.Fprintf(tc, "HELLO %s ttl=1h\n", id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	witness := (&rig{t: t, addr: r.gateway.Addrs()[1].String()}).dial()
	witness.say("HELLO witness ttl=3s\n") // three times as long as they have
	witness.expect("OK …")
	witness.expect("BYE silence")
	release()
	ready.Wait()
	for _, e := range r.events(2*devices + 2) { // each comes online and changes its timeout
		ofDevice := e.Type != liveness.SourceDeaf && e.Type != liveness.SourceHeard // a busy machine may stall
		if ofDevice && e.Subject != "witness" && e.Type != liveness.DeviceOnline && e.Type != liveness.DeviceChanged {
			t.Errorf("%s: %s %s after a silence of %v", e.ID(), e.Type, e.Reason, e.HeardSilence)
		}
	}
	if n := r.gateway.Stats().HandshakeTimeouts; n != 0 {
		t.Errorf("%d handshakes were given up", n)
	}
}

// TestStalledHandshakes: who does not go on with a handshake does not hold the clock up, in
// whatever part of it he stands still.
func TestStalledHandshakes(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	r := startRig(t, liveness.Config{}, k.witness(gateway.Config{MaxHandshakes: 1, HandshakeTimeout: time.Hour}))
	for i := range 60 {
		d := r.dial()
		switch i % 4 {
		case 0: // says nothing
		case 1: // half a record
			d.say("\x16\x03\x01\x00\xff\x01")
		case 2: // all but the last step
			c := tls.Client(&holding{Conn: d.conn, after: 1}, k.client())
			go func() { _ = c.Handshake() }() //nolint:noctx // ends with the connection
		case 3: // all, and no hello
			d.secure(k.client())
		}
	}
	witness := (&rig{t: t, addr: r.gateway.Addrs()[1].String()}).dial()
	witness.say("HELLO witness ttl=20s\n")
	witness.expect("OK …")
	d := r.dialTLS(k)
	d.say("HELLO silent ttl=300ms\n")
	d.expect("OK …")
	d.expect("BYE silence")
	if v, err := r.registry.Device("witness"); err != nil || v.State != liveness.Online {
		t.Errorf("the witness is %v, %v: its deadline is 20 s later, and came first", v.State, err)
	}
}
