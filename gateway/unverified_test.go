package gateway_test

import (
	"crypto/tls"
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/liveness"
)

// A device is verified by what it shows, where something has to be shown.
func TestUnverified(t *testing.T) {
	want := func(r *rig, id string, unverified bool) {
		t.Helper()
		if v, err := r.registry.Device(id); err != nil || v.Unverified != unverified {
			t.Errorf("%s is unverified: %v, %v, want %v", id, v.Unverified, err, unverified)
		}
	}
	k := newKeys(t).asking(tls.VerifyClientCertIfGiven)
	r := startRig(t, liveness.Config{}, k.config())
	for _, shows := range []bool{false, true} { // and then the first one, too
		d, id := r.dialTLS(k), "open"
		if shows {
			d, id = r.dialTLS(k, k.device(t, "certified")), "certified"
		}
		d.say("HELLO " + id + " some-token\n")
		d.expect("OK …")
		want(r, id, !shows)
	}
	d := r.dialTLS(k, k.device(t, "open"))
	d.say("HELLO open\n")
	d.expect("OK …")
	want(r, "open", false)

	r = startRig(t, liveness.Config{}, gateway.Config{Guard: gateway.Password("s3cret")})
	d = r.dial()
	d.say("HELLO d s3cret\n")
	d.expect("OK …")
	want(r, "d", false)
}
