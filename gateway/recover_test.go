package gateway_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/liveness"
)

// A device that has to be heard three times keeps its connection meanwhile, is answered at once, and loses
// the connection if it falls silent again.
func TestRecoverOnAConnection(t *testing.T) {
	t.Parallel()
	policy := liveness.Policy{Timeout: time.Second, RecoverAfter: 3}
	r := startRig(t, liveness.Config{Policy: policy}, gateway.Config{})
	d := r.dial()
	d.say("HELLO a\n")
	d.expect("OK 1 ttl=1")
	d.expect("BYE silence")
	d = r.dial()
	d.say("HELLO a ttl=3\n") // with an event of its policy
	d.expect("OK 2 ttl=3")
	if v := r.device("a"); v.State != liveness.Offline || v.Recovering != 1 {
		t.Errorf("%v, recovering %d", v.State, v.Recovering)
	}
	d.expect("BYE silence")
	d = r.dial()
	d.say("HELLO a ttl=3\nBEAT\nBEAT\n")
	d.expect("OK 3 ttl=3")
	if got, want := r.story(4), "a:1 device.online; a:2 device.offline silence; a:3 device.changed silence; a:4 device.online"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
}

// A device that hears goodbye has no session any more: if it comes back at once, it replaces none.
func TestBackAtOnce(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	r := startRig(t, liveness.Config{}, k.config())
	for range 50 {
		d := r.dialTLS(k)
		d.say("HELLO a ttl=20ms\n")
		d.expect("OK …")
		d.expect("BYE silence")
		if v := r.device("a"); v.Connected {
			t.Fatal("it hears goodbye, and its session is still open")
		}
	}
}
