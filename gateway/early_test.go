package gateway_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// A tracker may send what it has stored before it says who it is: that is counted as odd, and the login counts.
func TestFrameBeforeLogin(t *testing.T) {
	const (
		lengthOff = "\x78\x78\x0a\x11\x10\x05\x18\x07\x3b\x0c\x02\x5a\x02\x55\x33\x00\x06\xac\x00\x05\xd4\x3e\x0d\x0a"
		heartbeat = "\x78\x78\x0a\x13\x40\x06\x64\x00\x01\x00\x0d\x56\x19\x0d\x0a"
	)
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{gt06.Protocol{}}}}})
	d := r.dial()
	d.say(lengthOff)
	testwait.Until(t, "the frame is counted", func() bool { return r.gateway.Stats().Messages == 1 })
	d.say(strings.Repeat(heartbeat, 5))
	d.say(string(new(gt06.Client).AppendHello(nil, "352887071714000", "", 0)) + heartbeat)
	if e := r.events(1)[0]; e.Subject != "352887071714000" {
		t.Errorf("the event is of %s", e.Subject)
	}
	if st := r.gateway.Stats(); st.Broken != 0 || st.Mistakes != 0 {
		t.Errorf("%d mistakes, %d connections broken", st.Mistakes, st.Broken)
	}
}

// An id of zeros only, or of f only, is that of many devices that nobody has given one: it is refused.
func TestIDOfNobody(t *testing.T) {
	for _, tt := range []struct {
		name     string
		protocol codec.Protocol
		say      string
	}{
		{"gt06", gt06.Protocol{}, string(new(gt06.Client).AppendHello(nil, "000000000000000", "", 0))},
		{"teltonika", teltonika.Protocol{}, "\x00\x0f000000000000000"},
		{"jt808", jt808.Protocol{}, "\x7e\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x03\x7e"},
		{"jt808, f", jt808.Protocol{}, "\x7e\x00\x02\x00\x00\xff\xff\xff\xff\xff\xff\x00\x01\x03\x7e"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{tt.protocol}}}})
			r.dial().say(tt.say)
			testwait.Until(t, "it is refused", func() bool { return r.gateway.Stats().Mistakes == 1 })
			if n := r.registry.Stats().Devices; n != 0 {
				t.Errorf("there are %d devices", n)
			}
		})
	}
}
