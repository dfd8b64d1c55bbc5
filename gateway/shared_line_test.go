package gateway_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// A second device that says hello on a connection ends it, unless each message says whose it is: else its heartbeats would keep the first
// one alive, and nobody would hear of the second.
func TestSharedLine(t *testing.T) {
	const first, second = "352672107482500", "352672107482511"
	for _, tt := range []struct {
		name     string
		protocol codec.Protocol
		hello    func(id string) string
		stays    bool
	}{
		{"line", line.Protocol{}, func(id string) string { return "HELLO " + id + "\n" }, false},
		{"gt06", gt06.Protocol{}, func(id string) string { return string(new(gt06.Client).AppendHello(nil, id, "", 0)) }, false},
		{"teltonika", teltonika.Protocol{}, func(id string) string { return string(new(teltonika.Client).AppendHello(nil, id, "", 0)) }, false},
		{"jt808", jt808.Protocol{}, func(id string) string { return string(new(jt808.Client).AppendHello(nil, id[4:], "", 0)) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Hour}}, gateway.Config{
				Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{tt.protocol}}},
			})
			d := r.dial()
			d.say(tt.hello(first))
			id := r.events(1)[0].Subject
			testwait.Until(t, "it is connected", func() bool { return r.device(id).Connected })
			d.say(tt.hello(second))
			testwait.Until(t, "the second hello is refused", func() bool { return r.gateway.Stats().Mistakes > 0 })
			if tt.stays {
				d.say(tt.hello(first))
				testwait.Until(t, "the first device is heard", func() bool { return r.gateway.Stats().Messages >= 3 })
			} else {
				testwait.Until(t, "the connection ends", func() bool { return !r.device(id).Connected })
			}
			if v := r.device(id); v.Connected != tt.stays || v.State != liveness.Online {
				t.Errorf("the first device is %v, connected %t", v.State, v.Connected)
			}
		})
	}
}
