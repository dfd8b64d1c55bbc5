package gateway_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// porter is the line protocol with a codec that leaves the decision about devices to the test.
type porter struct {
	line.Protocol

	asked chan func(codec.Admission)
}

func (p porter) Codec() codec.Codec { return portered{p.Protocol.Codec(), p.asked} }

type portered struct {
	codec.Codec

	asked chan func(codec.Admission)
}

var _ codec.Authenticator = portered{}

func (p portered) Authenticate(*codec.Message, codec.Origin) (codec.Admission, func() codec.Admission) {
	decided := make(chan codec.Admission, 1)
	p.asked <- func(a codec.Admission) { decided <- a }
	return codec.Admission{}, func() codec.Admission { return <-decided }
}

func (portered) Revoked() bool { return false }

// While it is decided about a device's login, however long that takes, the device is not judged: it has
// said hello. Others are not judged either, until the decision.
func TestLoginHoldsClock(t *testing.T) {
	k := newKeys(t)
	for name, tls := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan func(codec.Admission), 1)
			l := gateway.Listener{Address: "127.0.0.1:0", Protocols: []codec.Protocol{porter{asked: asked}}}
			if tls {
				l.TLS = k.server
			}
			const timeout = 300 * time.Millisecond
			r := startRig(t, liveness.Config{Policy: liveness.Policy{CloseGrace: timeout}}, gateway.Config{Listen: []gateway.Listener{l}})
			dial := r.dial
			if tls {
				dial = func() *device { return r.dialTLS(k) }
			}
			first := dial()
			first.say("HELLO d ttl=60s\n")
			(<-asked)(codec.Admission{})
			first.expect("OK 1 ttl=60")
			second := dial()
			second.say("HELLO d ttl=60s\n")
			done := <-asked
			_ = first.conn.Close()
			source := r.gateway.Source()
			if tls {
				source = r.registry.Sources()[1]
			}
			testwait.Until(t, "the clock stands still", func() bool { return source.Time(time.Now())-source.Now() > 3*timeout })
			done(codec.Admission{})
			second.expect("OK 2 ttl=60")
			second.say("BYE\n")
			second.expect("BYE")
			if got, want := r.story(2), "d:1 device.online; d:2 device.offline bye"; got != want {
				t.Errorf("story = %s, want %s", got, want)
			}
		})
	}
}

// A device that its codec does not admit is told so, and its connection ends.
func TestLoginDenied(t *testing.T) {
	asked := make(chan func(codec.Admission), 1)
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{
		{Address: "127.0.0.1:0", Protocols: []codec.Protocol{porter{asked: asked}}},
	}})
	d := r.dial()
	d.say("HELLO d\nPING 1\n")
	(<-asked)(codec.Admission{Err: &codec.Error{Code: codec.Unauthorized, Text: "not you"}})
	d.expect("ERR unauthorized not you")
	d.expect("EOF")
	if n := r.gateway.Stats().Unauthorized; n != 1 || r.registry.Operator().Known("d") {
		t.Errorf("%d were turned away, want 1, and none is known", n)
	}
}
