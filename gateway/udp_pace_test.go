package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/liveness"
)

// The steps at which devices are to send half as many heartbeats, and an eighth.
const (
	factor2 = 2
	factor8 = 6
)

// pacedRig is a gateway that paces devices.
func pacedRig(t *testing.T, fleet liveness.Config, guard gateway.Guard, listen []gateway.Listener) *rig {
	t.Helper()
	r := startRig(t, fleet, gateway.Config{Listen: listen, Guard: guard, MaxBeatRate: 1 << 20})
	gateway.NoFlight(r.gateway)
	return r
}

// says says and hears the lines of a conversation. A device is told no interval with an answer that
// waits for a commit, but with that to the same again.
func (s *sender) says(lines [][2]string) {
	s.t.Helper()
	for _, l := range lines {
		s.say(l[0])
		got := s.hear()
		if strings.HasPrefix(l[1], got+"TTL ") {
			s.say(l[0])
			got = s.hear()
		}
		if got != l[1] {
			s.t.Fatalf("%q is answered by %q, want %q", l[0], got, l[1])
		}
	}
}

func (r *rig) timeout(want time.Duration) {
	r.t.Helper()
	if got := r.device("pump-1").Policy.Timeout; got != want {
		r.t.Fatalf("the timeout is %v, want %v", got, want)
	}
}

const helloHour = "HELLO pump-1 s3cret ttl=1h"

// A device over UDP is told an interval until it acknowledges it; its policy is stretched before,
// and shrinks after.
func TestPaceInDatagrams(t *testing.T) {
	r := pacedRig(t, liveness.Config{}, secret, packets("127.0.0.1:0"))
	d := r.sender()
	d.says([][2]string{{helloHour, "OK 1 ttl=3600\n"}})
	gateway.SetPace(r.gateway, factor2)
	d.says([][2]string{
		{helloHour, "OK 1 ttl=3600\nTTL 7200\n"}, // is lost
		{helloHour, "OK 1 ttl=7200\nTTL 7200\n"},
		{helloHour + "\nTTL 7200", "OK 1 ttl=7200\nTTL 7200\n"},
		{helloHour, "OK 1 ttl=7200\n"},
	})
	r.timeout(2 * time.Hour)
	gateway.SetPace(r.gateway, 0)
	d.says([][2]string{{helloHour, "OK 1 ttl=7200\nTTL 3600\n"}}) // is lost
	r.timeout(2 * time.Hour)
	d.says([][2]string{
		{helloHour, "OK 1 ttl=7200\nTTL 3600\n"},
		{helloHour + "\nTTL 3600", "OK 1 ttl=7200\nTTL 3600\n"},
		{helloHour, "OK 1 ttl=3600\n"},
	})
	r.timeout(time.Hour)
	if v := r.device("pump-1"); v.State != liveness.Online || v.Epoch != 1 {
		t.Errorf("the device is %+v", v)
	}
}

// A device may acknowledge an interval with its hello as well.
func TestPaceInHello(t *testing.T) {
	r := pacedRig(t, liveness.Config{}, secret, packets("127.0.0.1:0"))
	d := r.sender()
	d.says([][2]string{{helloHour, "OK 1 ttl=3600\n"}})
	gateway.SetPace(r.gateway, factor2)
	d.says([][2]string{
		{helloHour, "OK 1 ttl=3600\nTTL 7200\n"},
		{"HELLO pump-1 s3cret ttl=2h", "OK 1 ttl=7200\n"},
		{"HELLO pump-1 s3cret ttl=2h", "OK 1 ttl=7200\n"}, // and is not told 4 h
	})
	d.says([][2]string{{"HELLO pump-1 s3cret ttl=30m", "OK 1 ttl=1800\nTTL 3600\n"}})
	r.timeout(time.Hour)
}

// After the session has ended, a device may still follow what it was told.
func TestPaceInTheNextSession(t *testing.T) {
	r := pacedRig(t, liveness.Config{}, secret, packets("127.0.0.1:0"))
	d := r.sender()
	d.says([][2]string{{helloHour, "OK 1 ttl=3600\n"}})
	gateway.SetPace(r.gateway, factor2)
	d.says([][2]string{
		{helloHour, "OK 1 ttl=3600\nTTL 7200\n"},
		{helloHour + "\nTTL 7200\nBYE", "OK 1 ttl=7200\nTTL 7200\nBYE\n"},
		{helloHour, "OK 2 ttl=7200\n"},
		{helloHour + "\nBYE", "OK 2 ttl=7200\nBYE\n"},
	})
	gateway.SetPace(r.gateway, 0)
	d.says([][2]string{
		{helloHour, "OK 3 ttl=7200\nTTL 3600\n"},
		{helloHour + "\nTTL 1h", "OK 3 ttl=7200\nTTL 3600\n"},
	})
	r.timeout(time.Hour)
}

// A device that acknowledges nothing is told five times, then its own interval five times, and has
// its own policy then.
func TestPaceOfAMuteDevice(t *testing.T) {
	r := pacedRig(t, liveness.Config{}, secret, packets("127.0.0.1:0"))
	d := r.sender()
	d.says([][2]string{{helloHour, "OK 1 ttl=3600\n"}})
	gateway.SetPace(r.gateway, factor2)
	d.says([][2]string{{helloHour, "OK 1 ttl=3600\nTTL 7200\n"}})
	for range 4 {
		d.says([][2]string{{helloHour, "OK 1 ttl=7200\nTTL 7200\n"}})
	}
	for range 5 {
		d.says([][2]string{{helloHour, "OK 1 ttl=7200\nTTL 3600\n"}})
	}
	d.says([][2]string{{helloHour, "OK 1 ttl=7200\n"}, {helloHour, "OK 1 ttl=3600\n"}})
	if n := r.gateway.Stats().Packets.Unpaced; n != 1 {
		t.Errorf("%d devices did not follow, want 1", n)
	}
}

// Nobody is told an interval who has shown no token, or has a policy of his own.
func TestPaceLeavesDatagramsAlone(t *testing.T) {
	own := liveness.Config{Devices: map[string]liveness.Policy{"pump-1": {Timeout: time.Hour}}}
	for name, r := range map[string]*rig{
		"unproven":   pacedRig(t, liveness.Config{}, nil, packets("127.0.0.1:0")),
		"configured": pacedRig(t, own, secret, packets("127.0.0.1:0")),
	} {
		t.Run(name, func(t *testing.T) {
			gateway.SetPace(r.gateway, factor2)
			hello := helloHour
			if name == "unproven" {
				hello = "HELLO pump-1 ttl=1h                             "
			}
			d := r.sender()
			d.says([][2]string{{hello, "OK 1 ttl=3600\n"}, {hello, "OK 1 ttl=3600\n"}})
			r.timeout(time.Hour)
		})
	}
}

func TestPaceFrames(t *testing.T) {
	r := pacedRig(t, liveness.Config{Policy: liveness.Policy{Timeout: time.Minute, Interval: 20 * time.Second}}, secret, packets("127.0.0.1:0", frame.Protocol{}))
	const hello, pace = "\xa5\x11\x00\x10\x01\x06pump-1\x02\x06s3cret", "\xa5\x13\x00\x08\x00\x01\xd4\xc0\x00\x00\x9c\x40"
	d := r.sender()
	d.say(hello)
	welcome := d.hear()
	gateway.SetPace(r.gateway, factor2)
	d.says([][2]string{{hello, welcome + pace}})
	d.say(hello + pace)
	if heard := d.hear(); heard[len(heard)-len(pace):] != pace || len(heard) != len(welcome)+len(pace) {
		t.Errorf("the acknowledgement is answered by %q", heard)
	}
	r.timeout(2 * time.Minute)
}
