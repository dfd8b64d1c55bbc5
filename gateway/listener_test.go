package gateway_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/dtu"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/liveness"
)

// TestSharedPort: what is still open is not decided by the first bytes.
func TestSharedPort(t *testing.T) {
	modems, err := dtu.New(dtu.Options{Registration: `LOGIN:(\d{4})`})
	if err != nil {
		t.Fatal(err)
	}
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{{
		Address: "127.0.0.1:0", Protocols: []codec.Protocol{jt808.Protocol{}, modems, line.Protocol{}},
	}}})
	modem, talker := r.dial(), r.dial()
	modem.say("LOG")
	talker.say("HEL")
	modem.say("IN:1001")
	talker.say("LO a\n")
	talker.expect("OK 1…")
	talker.say("LOGIN:1002\n") // this is no beginning any more
	talker.say("PING 1\n")
	talker.expect("PONG 1")
	if got := r.story(2); !strings.Contains(got, "1001:1 device.online") || !strings.Contains(got, "a:1 device.online") {
		t.Errorf("events: %s", got)
	}
}

// TestBackInTheBacklog: a device that is back within its grace is not offline because the gateway
// has not accepted it yet.
func TestBackInTheBacklog(t *testing.T) {
	t.Parallel()
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
