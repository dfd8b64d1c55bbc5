package drive_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

func mqttPlan(change func(*plan.Plan)) *plan.Plan {
	p := fleetPlan(10, "127.0.0.1:1")
	p.Protocol = plan.MQTT
	change(p)
	return p
}

func TestParse(t *testing.T) {
	lines := fleetPlan(10, "127.0.0.1:1")
	pings := mqttPlan(func(*plan.Plan) {})
	publishes := mqttPlan(func(p *plan.Plan) { p.Publish, p.QoS = "t", 1 })
	five := mqttPlan(func(p *plan.Plan) { p.Protocol, p.Publish, p.QoS = plan.MQTT5, "t", 1 })
	for _, c := range []struct {
		name string
		plan *plan.Plan
		data string
		want map[string]int
		rest string
	}{
		{"a conversation", lines, "OK 1 ttl=60\nPONG 0\r\nPONG 4294967295\nTTL 5\nOK\nBYE silence\n", map[string]int{"welcome": 2, "pong": 2, "noted": 1, "goodbye": 1}, ""},
		{"half a line", lines, "PONG 1\nPON", map[string]int{"pong": 1}, "PON"},
		{"a mistake", lines, "ERR busy later\nERR\n", map[string]int{"rejected": 2}, ""},
		{"a number too big", lines, "PONG 4294967296\n", map[string]int{"garbage": 1}, "PONG 4294967296\n"},
		{"no number", lines, "PONG \n", map[string]int{"garbage": 1}, "PONG \n"},
		{"not of this protocol", lines, "HTTP/1.1 200 OK\n", map[string]int{"garbage": 1}, "HTTP/1.1 200 OK\n"},
		{"an endless line", lines, strings.Repeat("x", 4097), map[string]int{"garbage": 1}, strings.Repeat("x", 4097)},
		{"pings", pings, "\x20\x02\x01\x00\xD0\x00\xD0", map[string]int{"welcome": 1, "pong": 1}, "\xD0"},
		{"PUBACK to nothing", pings, "\x40\x02\x00\x01", map[string]int{"garbage": 1}, "\x40\x02\x00\x01"},
		{"publishes", publishes, "\x20\x02\x00\x00\x40\x02\x00\x01\x40\x02", map[string]int{"welcome": 1, "pong": 1}, "\x40\x02"},
		{"PINGRESP to nothing", publishes, "\xD0\x00", map[string]int{"garbage": 1}, "\xD0\x00"},
		{"a long PINGRESP", pings, "\xD0\x01", map[string]int{"garbage": 1}, "\xD0\x01"},
		{"MQTT 5", five, "\x20\x06\x00\x00\x03\x21\x00\x09\x40\x02\x00\x01\x40\x03\x00\x02\x10\x40\x04\x00\x03\x00\x00\x40", map[string]int{"welcome": 1, "pong": 3}, "\x40"},
		{"refused by MQTT 5", five, "\x20\x03\x00\x89\x00\x20\x03\x00\x87\x00\x40\x04\x00\x01\x97\x00", map[string]int{"rejected": 3}, ""},
		{"DISCONNECT of MQTT 5", five, "\x20\x03\x00\x00\x00\xE0\x02\x8E\x00\xE0\x00", map[string]int{"welcome": 1, "goodbye": 2}, ""},
		{"DISCONNECT of MQTT 3.1.1", pings, "\xE0\x00", map[string]int{"garbage": 1}, "\xE0\x00"},
		{"properties of MQTT 3.1.1", pings, "\x20\x03\x00\x00\x00", map[string]int{"garbage": 1}, "\x20\x03\x00\x00\x00"},
		{"half a length", five, "\x20\x80", map[string]int{}, "\x20\x80"},
		{"an endless length", five, "\x20\x80\x80\x80\x80\x80\x80", map[string]int{"garbage": 1}, "\x20\x80\x80\x80\x80\x80\x80"},
		{"a CONNACK of 5000 bytes", five, "\x20\x88\x27", map[string]int{"garbage": 1}, "\x20\x88\x27"},
		{"a PUBACK to nothing of MQTT 5", five, "\x40\x01\x00", map[string]int{"garbage": 1}, "\x40\x01\x00"},
		{"reserved flags", pings, "\x20\x02\x02\x00", map[string]int{"garbage": 1}, "\x20\x02\x02\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, rest, err := drive.Parse(c.plan, []byte(c.data))
			if err != nil || !maps.Equal(got, c.want) || string(rest) != c.rest {
				t.Errorf("Parse(%q) = %v, %q, %v, want %v, %q", c.data, got, rest, err, c.want, c.rest)
			}
		})
	}
}

// FuzzParse: whatever comes, and in whatever pieces, the same answers are understood, and nothing panics.
func FuzzParse(f *testing.F) {
	f.Add(byte(0), 3, []byte("OK 1 ttl=60\nPONG 1\r\nBYE silence\nERR busy x\n"))
	f.Add(byte(1), 1, []byte("\x20\x02\x00\x00\xD0\x00\xD0\x00"))
	f.Add(byte(2), 5, []byte("\x20\x02\x00\x05\x40\x02\x00\x01"))
	f.Add(byte(3), 4, []byte("\x20\x03\x00\x00\x00\x40\x03\x00\x01\x10\xE0\x02\x8E\x00"))
	plans := []*plan.Plan{
		fleetPlan(10, "127.0.0.1:1"), mqttPlan(func(*plan.Plan) {}), mqttPlan(func(p *plan.Plan) { p.Publish, p.QoS = "t", 1 }),
		mqttPlan(func(p *plan.Plan) { p.Protocol, p.Publish, p.QoS = plan.MQTT5, "t", 1 }),
	}
	f.Fuzz(func(t *testing.T, which byte, cut int, data []byte) {
		p := plans[int(which)%len(plans)]
		whole, rest, err := drive.Parse(p, data)
		if err != nil {
			t.Fatal(err)
		}
		if len(rest) > 5000 && whole["garbage"] == 0 {
			t.Errorf("%d bytes wait for more", len(rest))
		}
		if whole["garbage"] > 0 || len(data) == 0 {
			return
		}
		cut = int(uint(cut) % uint(len(data)))
		first, left, err := drive.Parse(p, data[:cut])
		if err != nil {
			t.Fatal(err)
		}
		second, left, err := drive.Parse(p, append(bytes.Clone(left), data[cut:]...))
		if err != nil {
			t.Fatal(err)
		}
		for kind, n := range second {
			first[kind] += n
		}
		if !maps.Equal(first, whole) || !bytes.Equal(left, rest) {
			t.Errorf("in two pieces %v and %q, in one %v and %q", first, left, whole, rest)
		}
	})
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		name                    string
		plan                    *plan.Plan
		hello, birth, beat, bye string
	}{
		{
			"mqtt", mqttPlan(func(p *plan.Plan) { p.Timeout = 90 * time.Second }),
			"\x10\x0e\x00\x04MQTT\x04\x02\x00\x3c\x00\x02d3", "", "\xC0\x00", "\xE0\x00",
		},
		{
			"mqtt with all", mqttPlan(func(p *plan.Plan) {
				p.WillTopic, p.WillPayload, p.BirthPayload, p.User, p.Token = "s/{device}", "off", "{device} on", "u", "pw"
				p.Publish, p.QoS = "b/{device}", 1
			}),
			"\x10\x20\x00\x04MQTT\x04\xEE\x00\x02\x00\x02d3\x00\x04s/d3\x00\x03off\x00\x01u\x00\x02pw", "\x31\x0b\x00\x04s/d3d3 on",
			"\x32\x09\x00\x04b/d3\x00\x087", "\xE0\x00",
		},
		{
			"mqtt5 with all", mqttPlan(func(p *plan.Plan) {
				p.Protocol, p.WillTopic, p.WillPayload, p.BirthPayload, p.User, p.Token = plan.MQTT5, "s/{device}", "off", "{device} on", "u", "pw"
				p.Publish, p.QoS = "b/{device}", 1
			}),
			"\x10\x22\x00\x04MQTT\x05\xEE\x00\x02\x00\x00\x02d3\x00\x00\x04s/d3\x00\x03off\x00\x01u\x00\x02pw", "\x31\x0c\x00\x04s/d3\x00d3 on",
			"\x32\x0a\x00\x04b/d3\x00\x08\x007", "\xE0\x00",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			hello, birth, beat, bye, err := drive.Words(c.plan, 3)
			if err != nil || hello != c.hello || birth != c.birth || beat != c.beat || bye != c.bye {
				t.Errorf("Words: %q, %q, %q, %q, %v\nwant %q, %q, %q, %q", hello, birth, beat, bye, err, c.hello, c.birth, c.beat, c.bye)
			}
		})
	}
}

// What devices say is what the gateway's own codecs understand.
func TestProtocols(t *testing.T) {
	for _, protocol := range []codec.Protocol{line.Protocol{}, frame.Protocol{}, jt808.Protocol{}, teltonika.Protocol{}, gt06.Protocol{}} {
		t.Run(protocol.Name(), func(t *testing.T) {
			p := fleetPlan(10, "127.0.0.1:1")
			p.Protocol, p.ID, p.Timeout = protocol.Name(), "", 90*time.Second
			p.Fill()
			hello, birth, beat, bye, err := drive.Words(p, 3)
			if err != nil || birth != "" {
				t.Fatal(birth, err)
			}
			c := protocol.Codec()
			for i, text := range []string{hello, beat, bye} {
				var m codec.Message
				if text == "" && i == 2 {
					continue // there is no word for it
				}
				n, err := c.Next([]byte(text), &m)
				if want := []codec.Kind{codec.Hello, codec.Beat, codec.Bye}[i]; err != nil || n != len(text) || m.Err != nil || m.Kind != want {
					t.Errorf("%q is understood as %+v, %d bytes, %v", text, m, n, err)
				}
				if i == 0 && string(m.ID) != p.DeviceID(3) {
					t.Errorf("%q is from %q, want %q", text, m.ID, p.DeviceID(3))
				}
				c.Reply(nil, &m, &codec.Outcome{})
			}
		})
	}
}

func TestSchedule(t *testing.T) {
	p := fleetPlan(10, "127.0.0.1:1")
	p.Interval, p.Jitter = time.Second, 0.2
	tick := int64(5 * time.Millisecond)
	s := drive.NewSchedule(p, tick)
	p.Jitter = 0
	even := drive.NewSchedule(p, tick)
	var phases [10]int
	for n := range 10_000 {
		phases[min(even.Planned(n, 0)*10/int64(p.Interval), 9)]++
		for k := range uint32(5) {
			at, after := s.Planned(n, k), s.Planned(n, k+1)
			gap := time.Duration(after - at)
			if at%tick != 0 || gap < 800*time.Millisecond-5*time.Millisecond || gap > 1200*time.Millisecond+5*time.Millisecond {
				t.Fatalf("heartbeats %d of %d at %d, then %d", k, n, at, after)
			}
			if next := s.After(n, at); s.Planned(n, next) <= at || next > k+1 {
				t.Fatalf("after heartbeat %d of %d at %d comes %d", k, n, at, next)
			}
		}
		if s.After(n, -1) != 0 {
			t.Fatalf("before all heartbeats of %d comes %d", n, s.After(n, -1))
		}
	}
	for i, n := range phases {
		if n < 900 || n > 1100 {
			t.Errorf("%d of 10000 begin in tenth %d", n, i)
		}
	}
}

// The wheel does what a map of deadlines does.
func TestWheel(t *testing.T) {
	for seed := range uint64(20) {
		chance := rand.New(rand.NewPCG(seed, 1))
		const n = 50
		w := drive.NewWheel(n)
		want := map[int32]uint32{}
		now := uint32(0)
		for range 3000 {
			i := chance.Int32N(n)
			switch chance.IntN(4) {
			case 0, 1:
				at := now + uint32(chance.IntN(20_000))
				if chance.IntN(2) == 0 {
					at = now + uint32(chance.IntN(5))
				}
				w.Set(i, at)
				want[i] = max(at, now+1)
			case 2:
				w.Remove(i)
				delete(want, i)
			default:
				if next := w.Next(8); next > now+8 || next <= now {
					t.Fatalf("next is %d at %d", next, now)
				}
				now += uint32(chance.IntN(300))
				if chance.IntN(5) == 0 {
					now += 9000
				}
				for last := uint32(0); ; {
					i, ok := w.Pop(now)
					if !ok {
						break
					}
					at, known := want[i]
					if !known || at > now || at < last {
						t.Fatalf("device %d came at %d after %d, was due at %d, %v", i, now, last, at, known)
					}
					last = at
					delete(want, i)
				}
				for i, at := range want {
					if at <= now {
						t.Fatalf("device %d did not come at %d, was due at %d", i, now, at)
					}
				}
			}
		}
	}
}

func TestSize(t *testing.T) {
	if drive.DeviceSize > 56 {
		t.Errorf("a device has %d bytes", drive.DeviceSize)
	}
}
