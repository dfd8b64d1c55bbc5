package gateway_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/liveness"
)

// A device is told to slow down, and later that it need not any more, which its policy follows: longer at once, shorter once it
// is heard again. A device with a configured policy is left alone. How devices that follow make the load is in TestPacingOfAFleet.
func TestPace(t *testing.T) {
	fleet := liveness.Config{Devices: map[string]liveness.Policy{"fixed": {Timeout: time.Hour}}}
	r := pacedRig(t, fleet, nil, nil)
	free, fixed := r.dial(), r.dial()
	for d, id := range map[*device]string{free: "free", fixed: "fixed"} {
		d.say("HELLO " + id + " ttl=1h\n")
		d.expect("OK 1 ttl=3600")
	}
	beat := func(told string, timeout time.Duration) {
		t.Helper()
		free.say("PING\n")
		if told != "" {
			free.expect(told)
		}
		free.expect("PONG")
		fixed.say("PING\n")
		fixed.expect("PONG")
		if a, b := r.device("free").Policy.Timeout, r.device("fixed").Policy.Timeout; a != timeout || b != time.Hour {
			t.Errorf("the timeouts are %v and %v, want %v and an hour", a, b, timeout)
		}
	}
	beat("", time.Hour)
	gateway.SetPace(r.gateway, factor2)
	beat("TTL 7200", 2*time.Hour)
	beat("", 2*time.Hour)
	gateway.SetPace(r.gateway, 0)
	beat("TTL 3600", 2*time.Hour)
	beat("", time.Hour)
}

// A terminal is told by its parameter of the interval of heartbeats. It keeps that when it comes
// back, and so does its policy.
func TestPaceOfATerminal(t *testing.T) {
	t.Parallel()
	const phone = "13800000000"
	r := pacedRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 24 * time.Second, Interval: 2 * time.Second}}, nil,
		[]gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{jt808.Protocol{}}}})
	var client jt808.Client
	d := r.dial()
	d.say(string(client.AppendHello(nil, phone, "", 0)))
	d.answer(codec.Welcome)
	gateway.SetPace(r.gateway, factor8)
	d.say(string(client.AppendBeat(nil, phone, 7)))
	raw := d.any()
	d.answer(codec.Heard)
	if want := []byte{1, 0, 0, 0, 1, 4, 0, 0, 0, 16}; !bytes.Contains(raw, want) { // eight times two seconds
		t.Errorf("the request is %x, want %x in it", raw, want)
	}
	id := r.events(1)[0].Subject
	check := func(what string) {
		t.Helper()
		if p := r.device(id).Policy; p.Timeout != 192*time.Second || p.Interval != 16*time.Second {
			t.Errorf("%s: the policy is %+v", what, p)
		}
	}
	check("told")
	_ = d.conn.Close()
	d = r.dial()
	d.say(string(client.AppendHello(nil, phone, "", 0)))
	d.answer(codec.Welcome)
	check("back")
	d.say(string(client.AppendBeat(nil, phone, 8)))
	d.answer(codec.Heard) // it is not told again
	check("heard")
}

// A terminal that was told an interval under a policy that has changed since is not judged by the
// new one before it was told that, and was heard again.
func TestPaceAfterThePolicyChanged(t *testing.T) {
	const phone = "13800000000"
	tests := []struct {
		name            string
		told, meanwhile time.Duration // timeouts; each interval is a twelfth
	}{
		{"a little", 100 * time.Second, 144 * time.Second}, // six times the new one
		{"much", 480 * time.Second, 480 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 24 * time.Second, Interval: 2 * time.Second}}, gateway.Config{
				Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{jt808.Protocol{}}}},
			})
			source := r.gateway.Source()
			told := liveness.Hello{Announced: liveness.Policy{Timeout: tt.told, Interval: tt.told / 12}, Unverified: true}
			if _, err := source.Open(new(liveness.Session), phone, told, nil, source.Time(time.Now())); err != nil {
				t.Fatal(err)
			}
			check := func(what string, timeout time.Duration) {
				t.Helper()
				if p := r.device(phone).Policy; p.Timeout != timeout || p.Interval != timeout/12 {
					t.Errorf("%s: the policy is %+v, want a timeout of %v", what, p, timeout)
				}
			}
			var client jt808.Client
			d := r.dial()
			d.say(string(client.AppendHello(nil, phone, "", 0)))
			d.answer(codec.Welcome)
			check("back", tt.meanwhile)
			d.say(string(client.AppendBeat(nil, phone, 7)))
			if raw, want := d.any(), []byte{1, 0, 0, 0, 1, 4, 0, 0, 0, 2}; !bytes.Contains(raw, want) {
				t.Errorf("the request is %x, want %x in it", raw, want)
			}
			d.answer(codec.Heard)
			check("told", tt.meanwhile)
			for range 2 {
				d.say(string(client.AppendBeat(nil, phone, 8)))
				d.answer(codec.Heard)
				check("heard", 24*time.Second)
			}
		})
	}
}

// any reads an answer to a terminal, of whatever kind.
func (d *device) any() []byte {
	d.t.Helper()
	var c jt808.Client
	for size := 1; ; size++ {
		raw, err := d.in.Peek(size)
		if err != nil {
			d.t.Fatal(err)
		}
		if _, n := c.Next(raw); n > 0 {
			raw = append([]byte(nil), raw[:n]...)
			_, _ = d.in.Discard(n)
			return raw
		}
	}
}

// What a device announces itself counts from then on, unless it repeats what it was told.
func TestPaceAndTTL(t *testing.T) {
	t.Parallel()
	r := pacedRig(t, liveness.Config{}, nil, nil)
	gateway.SetPace(r.gateway, factor8)
	d := r.dial()
	d.say("HELLO a ttl=6s\n")
	d.expect("OK 1 ttl=6")
	d.say("PING\n")
	d.expect("TTL 48")
	d.expect("PONG")
	for range 3 {
		d.say("TTL 48\n")
		d.expect("TTL 48")
		d.say("PING\n")
		d.expect("PONG")
	}
	d.say("TTL 10\n")
	d.expect("TTL 10")
	d.say("PING\n")
	d.expect("TTL 80")
	d.expect("PONG")
}
