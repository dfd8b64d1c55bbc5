package gateway_test

import (
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/liveness"
)

// A hello that comes when the time for it is just over, and is answered with OK, counts: the
// connection stays.
func TestHelloJustInTime(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Loops: 1})
	tardy, other := r.dial(), r.dial()
	for i, d := range []*device{tardy, other} {
		d.say([]string{"HELLO tardy\n", "HELLO other\n"}[i])
		d.expect("OK …")
	}
	gateway.TooLate(r.gateway, "tardy")
	gateway.CloseDevice(r.gateway, "other") // one after the other
	other.expect("BYE test")
	tardy.say("PING 1\n")
	tardy.expect("PONG 1")
}
