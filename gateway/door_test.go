package gateway_test

import (
	"net"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/liveness"
)

// TestBackInTheBacklog: a device that is back within its grace is not offline because the gateway has not accepted it yet.
func TestBackInTheBacklog(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: 30 * time.Second, CloseGrace: 500 * time.Millisecond}}
	r := startRig(t, fleet, gateway.Config{AcceptRate: 4})
	d := r.dial()
	d.say("HELLO a\n")
	d.expect("OK 1 ttl=30")
	for range 8 { // two seconds' worth of connections
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	_ = d.conn.Close()
	back := r.dial()
	back.say("HELLO a\n")
	back.expect("OK 2 ttl=30")
	v, err := r.registry.Device("a")
	if err != nil || v.Seq != 1 || v.State != liveness.Online {
		t.Errorf("the device is %+v, %v; want no event but its first", v, err)
	}
}
