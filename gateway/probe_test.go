package gateway_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/dtu"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// probing is a fleet whose devices are asked after 500 and 1000 ms, and judged after 1500.
func probing() liveness.Config {
	return liveness.Config{Policy: liveness.Policy{Timeout: 1500 * time.Millisecond, Probes: 2, ProbeWait: 500 * time.Millisecond}}
}

// A silent device is asked; its answer keeps it online, whatever it is, and one that does not
// answer is judged when it would have been.
func TestProbe(t *testing.T) {
	t.Parallel()
	r := startRig(t, probing(), gateway.Config{})
	d := r.dial()
	d.say("HELLO a\n")
	d.expect("OK 1 ttl=1.5")
	d.expect("PING?")
	d.expect("PING?")
	d.say("PONG\n")
	d.expect("PING?")
	d.expect("PING?")
	d.expect("BYE silence")
	if got, want := r.story(2), "a:1 device.online; a:2 device.offline silence"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
	if e := r.events(2)[1]; e.HeardSilence < e.Timeout || e.Timeout != 1500*time.Millisecond {
		t.Errorf("%+v", e)
	}
	if st := r.gateway.Stats(); st.Probes != 4 || st.ProbesLeftOut != 0 {
		t.Errorf("%d probes, %d left out", st.Probes, st.ProbesLeftOut)
	}
}

// A device that was asked is suspect until it answers.
func TestProbedIsSuspect(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{Policy: liveness.Policy{Timeout: time.Hour + 100*time.Millisecond, Probes: 1, ProbeWait: time.Hour}}, gateway.Config{})
	d := r.dial()
	d.say("HELLO a\n")
	d.expect("OK 1 ttl=3600.1")
	d.expect("PING?")
	if v := r.device("a"); v.State != liveness.Suspect || v.Asked != 1 {
		t.Errorf("%v, asked %d times", v.State, v.Asked)
	}
}

// A protocol without a question leaves the device what it was.
func TestProbeOfTheMute(t *testing.T) {
	t.Parallel()
	mute, err := dtu.New(dtu.Options{Registration: "REG(.*);"})
	if err != nil {
		t.Fatal(err)
	}
	r := startRig(t, probing(), gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{mute}}}})
	d := r.dial()
	d.say("REGa;")
	for _, e := range r.events(2) {
		if e.Type == liveness.DeviceOffline && e.HeardSilence < e.Timeout {
			t.Errorf("%+v", e)
		}
	}
	if v := r.device("a"); v.Asked != 0 || r.gateway.Stats().Probes != 0 {
		t.Errorf("asked %d times, %d probes", v.Asked, r.gateway.Stats().Probes)
	}
}

// A terminal is asked for its location; the answer is a heartbeat.
func TestProbeOfATerminal(t *testing.T) {
	t.Parallel()
	r := startRig(t, probing(), gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{jt808.Protocol{}}}}})
	d := r.dial()
	var client jt808.Client
	d.say(string(client.AppendHello(nil, "13800000000", "", 0)))
	d.answer(codec.Welcome)
	d.answer(codec.Noted) // the question
	d.say(string(client.AppendBeat(nil, "13800000000", 7)))
	d.answer(codec.Heard)
	d.answer(codec.Noted)
	testwait.Until(t, "both questions are counted", func() bool { return r.gateway.Stats().Probes == 2 })
}

// answer reads an answer to a terminal, which must be of a kind.
func (d *device) answer(want codec.AnswerKind) {
	d.t.Helper()
	var c jt808.Client
	for size := 1; ; size++ {
		raw, err := d.in.Peek(size)
		if err != nil {
			d.t.Fatal(err)
		}
		if a, n := c.Next(raw); n > 0 {
			raw = append([]byte(nil), raw[:n]...)
			if _, err := d.in.Discard(n); err != nil || a.Kind != want {
				d.t.Fatalf("the answer is %+v, %x, want kind %d; %v", a, raw, want, err)
			}
			return
		}
	}
}

func TestProbeOverTLS(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	r := startRig(t, probing(), k.config())
	d := r.dial().secure(k.client())
	d.say("HELLO a\n")
	d.expect("OK 1 ttl=1.5")
	d.expect("PING?")
	d.say("PING 1\n")
	d.expect("PONG 1")
	d.expect("PING?")
	d.expect("PING?")
	d.expect("BYE silence")
	if st := r.gateway.Stats(); st.Probes != 3 || st.ProbesLeftOut != 0 {
		t.Errorf("%d probes, %d left out", st.Probes, st.ProbesLeftOut)
	}
}

// A device that speaks in datagrams is asked where it has proved to be, and nowhere else.
func TestProbeInDatagrams(t *testing.T) {
	t.Parallel()
	r := startRig(t, probing(), gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret})
	s := r.sender()
	s.say("HELLO a s3cret\n")
	s.expect("OK 1 ttl=1.5\n")
	s.expect("PING?\n")
	s.say("HELLO a s3cret\n")
	s.expect("OK 1 ttl=1.5\n")
	s.expect("PING?\n")
	s.expect("PING?\n")
	if got := r.events(2)[1]; got.Type != liveness.DeviceOffline {
		t.Errorf("%+v", got)
	}

	open := startRig(t, probing(), gateway.Config{Listen: packets("127.0.0.1:0")})
	s = open.sender()
	s.say("HELLO anybody\n")
	s.expect("OK 1 ttl=1.5\n")
	open.events(2)
	if st := open.gateway.Stats(); st.Probes != 0 || open.device("anybody").Asked != 0 {
		t.Errorf("%d probes", st.Probes)
	}
}

// A site outage is no storm of questions: those that are too many are left out, and the verdicts
// come in time.
func TestProbesArePaced(t *testing.T) {
	const devices = 300
	stalls := testwait.Watch(t)
	r := startRig(t, liveness.Config{Policy: liveness.Policy{Timeout: time.Second, Probes: 1, ProbeWait: 300 * time.Millisecond}}, gateway.Config{ProbeRate: 100})
	hello := ""
	for i := range devices {
		hello = fmt.Sprintf("HELLO d%d\n", i)
		d := r.dial()
		d.say(hello)
		d.expect("OK 1 ttl=1")
	}
	r.events(2 * devices)
	for _, e := range r.events(2 * devices) {
		if e.Type == liveness.DeviceOffline && (e.HeardSilence < e.Timeout || e.Time.Sub(e.Deadline) > 500*time.Millisecond+stalls.Between(e.Deadline, e.Time)) {
			t.Errorf("%+v", e)
		}
	}
	st := r.gateway.Stats()
	if st.Probes == 0 || st.ProbesLeftOut == 0 || st.Probes+st.ProbesLeftOut > devices {
		t.Errorf("%d probes, %d left out", st.Probes, st.ProbesLeftOut)
	}
}

// A device that does not read is not sent more.
func TestProbeOfASlowReader(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 2 * time.Second, Probes: 1, ProbeWait: time.Second}},
		gateway.Config{Listen: unlimited(), MaxOutbound: 16 << 20})
	d := r.dial()
	d.say("HELLO a\n")
	d.expect("OK 1 ttl=2")
	go func() {
		for range 100_000 {
			if _, err := io.WriteString(d.conn, "PING 0123456789012345678901234567890123456789012345678901234567890123456789\n"); err != nil {
				return
			}
		}
	}()
	testwait.Until(t, "the question is left out", func() bool { return r.gateway.Stats().ProbesLeftOut == 1 })
	if st := r.gateway.Stats(); st.Probes != 0 || r.device("a").State == liveness.Offline {
		t.Errorf("%d probes", st.Probes)
	}
}
