package broker_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/internal/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

// TestRetained sends many more retained messages to one subscription than the queue of a client has room for.
func TestRetained(t *testing.T) {
	const n = 1000
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			for qos := range byte(2) {
				t.Run(fmt.Sprintf("qos=%d", qos), func(t *testing.T) {
					s := start(t, liveness.Config{}, broker.Config{})
					p := s.connect(hello{id: "p", version: version})
					for i := range n {
						p.publish(fmt.Sprintf("x/%d", i), strconv.Itoa(i), 0, true)
					}
					p.publish("x/0", "new", qos, true)
					p.publish("x/1", "", qos, true)
					for range 2 * qos {
						p.want(packets.Puback)
					}
					p.ping()
					if st := s.broker.Stats(); st.Retained != n-1 {
						t.Errorf("%d retained, want %d", st.Retained, n-1)
					}
					c := s.connect(hello{id: "c", version: version})
					c.subscribe("x/#", qos)
					got := make(map[string]string)
					for range n - 1 {
						pk := c.want(packets.Publish)
						if !pk.FixedHeader.Retain {
							t.Fatalf("message %+v is not marked as retained", pk)
						}
						if pk.FixedHeader.Qos > 0 {
							c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: pk.PacketID})
						}
						got[pk.TopicName] = string(pk.Payload)
					}
					if len(got) != n-1 || got["x/0"] != "new" || got["x/999"] != "999" {
						t.Errorf("%d messages, x/0 is %q and x/999 %q", len(got), got["x/0"], got["x/999"])
					}
					c.ping()
					if st := s.broker.Stats(); st.Dropped != 0 {
						t.Errorf("%d dropped", st.Dropped)
					}
				})
			}
		})
	}
}

// TestRetainHandling asks for retained messages as only MQTT 5 can (3.8.3.1).
func TestRetainHandling(t *testing.T) {
	s := start(t, liveness.Config{}, broker.Config{})
	if err := s.broker.Publish("x", []byte("1"), true); err != nil {
		t.Fatal(err)
	}
	c := s.connect(hello{id: "c", version: 5})
	c.subscribeWith(packets.Subscription{Filter: "x", RetainHandling: 2})
	c.ping() // nothing came
	c.subscribeWith(packets.Subscription{Filter: "x", RetainHandling: 1})
	c.ping() // it subscribed before
	c.subscribeWith(packets.Subscription{Filter: "$share/group/x"})
	c.ping()
	c.subscribeWith(packets.Subscription{Filter: "+", RetainHandling: 1})
	c.message("x", "1")
	c.subscribe("x", 0)
	c.message("x", "1")
}

func TestRetainedBounds(t *testing.T) {
	s := start(t, quick, broker.Config{MaxRetained: 2, MaxRetainedBytes: 100})
	for i := range 5 { // the program's do not count
		if err := s.broker.Publish(fmt.Sprint("own/", i), []byte("1"), true); err != nil {
			t.Fatal(err)
		}
	}
	c := s.connect(hello{id: "c", will: "w", willRetain: true})
	c.publish("a", strings.Repeat("x", 200), 0, true)
	c.publish("a", "1", 0, true)
	c.publish("b", "1", 0, true)
	c.publish("c", "1", 0, true)
	c.publish("a", "2", 0, true)
	c.ping()
	c.conn.Close()
	s.event("c", liveness.DeviceOffline)
	testwait.Until(t, "the end of the connection", func() bool { return s.broker.Stats().Clients == 0 })
	if got, want := kept(s, "#"), "a=2 b=1 own/0=1 own/1=1 own/2=1 own/3=1 own/4=1"; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
	if st := s.broker.Stats(); st.Retained != 2 || st.RetainedBytes != 4 || st.RetainedRefused != 3 {
		t.Errorf("stats %+v, want 2 retained of 4 bytes and 3 refused", st)
	}
}

func kept(s *station, filter string) string {
	found := s.broker.Retained(filter)
	var out []string
	for _, topic := range slices.Sorted(maps.Keys(found)) {
		out = append(out, fmt.Sprintf("%s=%s", topic, found[topic]))
	}
	return strings.Join(out, " ")
}

func TestRetainedFilters(t *testing.T) {
	s := start(t, liveness.Config{}, broker.Config{})
	for _, topic := range []string{"a", "a/b", "a/b/c", "/a", "a//c", "$mine/a", "d"} {
		if err := s.broker.Publish(topic, []byte("1"), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.broker.Publish("d", nil, true); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ filter, want string }{
		{"#", "/a a a//c a/b a/b/c"},
		{"+", "a"},
		{"a", "a"},
		{"a/#", "a a//c a/b a/b/c"},
		{"a/+", "a/b"},
		{"a/+/c", "a//c a/b/c"},
		{"+/b/#", "a/b a/b/c"},
		{"+/+", "/a a/b"},
		{"/+", "/a"},
		{"$mine/#", "$mine/a"},
		{"+/a", "/a"},
		{"b", ""},
		{"d", ""},
	}
	for _, tt := range tests {
		got := strings.Join(slices.Sorted(maps.Keys(s.broker.Retained(tt.filter))), " ")
		if got != tt.want {
			t.Errorf("Retained(%q) = %q, want %q", tt.filter, got, tt.want)
		}
	}
}

// TestReserved publishes where only the program may.
func TestReserved(t *testing.T) {
	s := start(t, liveness.Config{}, broker.Config{})
	for _, topic := range []string{"", "a/+", "#"} {
		if err := s.broker.Publish(topic, nil, false); err == nil {
			t.Errorf("Publish to %q succeeded", topic)
		}
	}
	c := s.connect(hello{id: "c"})
	c.subscribe("#", 0)
	old := s.connect(hello{id: "old"})
	old.publish("holter/a/state", "forged", 1, true)
	old.want(packets.Puback)
	old.publish("holter", "forged", 0, true)
	old.ping()
	c5 := s.connect(hello{id: "new", version: 5})
	c5.publish("holter/a/state", "forged", 1, true)
	if ack := c5.want(packets.Puback); ack.ReasonCode != packets.ErrNotAuthorized.Code {
		t.Errorf("PUBACK with %#x, want %#x", ack.ReasonCode, packets.ErrNotAuthorized.Code)
	}
	c5.publish("$SYS/broker/version", "forged", 0, true)
	c5.ping()
	if err := s.broker.Publish("holter/a/state", []byte("online"), true); err != nil {
		t.Fatal(err)
	}
	c.message("holter/a/state", "online")
	if got := kept(s, "holter/#"); got != "holter/a/state=online" {
		t.Errorf("kept %q", got)
	}
	for _, tt := range []struct{ version, want byte }{{4, 5}, {5, packets.ErrNotAuthorized.Code}} {
		if code := s.dial().hello(hello{id: "will", version: tt.version, will: "holter/a/state"}); code != tt.want {
			t.Errorf("a reserved will: CONNACK of version %d with %#x, want %#x", tt.version, code, tt.want)
		}
	}
	s.rejected(broker.ACL, 5)
}

func TestTopics(t *testing.T) {
	s := start(t, liveness.Config{}, broker.Config{MaxSubscriptions: 2})
	c := s.connect(hello{id: "c"})
	c.subscribe("#", 0)
	p := s.connect(hello{id: "p"})
	for _, topic := range []string{strings.Repeat("x", 2000), strings.Repeat("/", 100)} {
		p.publish(topic, "1", 1, true)
		p.want(packets.Puback)
		if code := p.subscribe(topic, 0); code != packets.ErrUnspecifiedError.Code {
			t.Errorf("SUBACK with %#x, want %#x", code, packets.ErrUnspecifiedError.Code)
		}
	}
	p.publish("x", "1", 0, false)
	c.message("x", "1")
	for i, want := range []byte{0, 0, 0x80} {
		if code := p.subscribe(fmt.Sprint("x", i), 0); code != want {
			t.Errorf("SUBACK of the filter %d with %#x, want %#x", i, code, want)
		}
	}
	if code := p.subscribe("x1", 0); code != 0 {
		t.Errorf("SUBACK of one that is there with %#x, want 0", code)
	}
	s.rejected(broker.Protocol, 2)
	if n := s.broker.Stats().SubscriptionsRefused; n != 3 {
		t.Errorf("%d subscriptions refused, want 3", n)
	}
}

// TestSlowSubscriber lets a subscriber take nothing: others are not held up, and it is cut off in the end.
func TestSlowSubscriber(t *testing.T) {
	s := start(t, liveness.Config{}, broker.Config{SendTimeout: 500 * time.Millisecond, MaxUnsent: 64 << 10})
	for qos := range byte(2) {
		slow := s.connect(hello{id: fmt.Sprint("slow-", qos)})
		slow.subscribe("x", qos)
	}
	p := s.connect(hello{id: "p"})
	for range 200 {
		p.publish("x", strings.Repeat("x", 100_000), 1, false)
		p.want(packets.Puback)
	}
	testwait.Until(t, "the end of the slow ones", func() bool { return s.broker.Stats().Clients == 1 })
	if st := s.broker.Stats(); st.Dropped == 0 || st.Slow != 2 {
		t.Errorf("stats %+v, want some dropped and 2 slow", st)
	}
}

// TestSlowAndBack lets a subscriber take nothing for a moment, and read on: nothing is wrong with it, then or later.
func TestSlowAndBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 4 s")
	}
	const timeout = 2 * time.Second
	s := start(t, liveness.Config{}, broker.Config{SendTimeout: timeout, MaxUnsent: 64 << 20})
	c := s.connect(hello{id: "c"})
	c.subscribe("x", 1)
	p := s.connect(hello{id: "p"})
	long := strings.Repeat("x", 200_000)
	for range 50 { // more than the kernel takes
		p.publish("x", long, 1, false)
		p.want(packets.Puback)
	}
	for range 50 {
		pk := c.message("x", long)
		c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: pk.PacketID})
	}
	<-time.After(2 * timeout)
	c.ping()
	if st := s.broker.Stats(); st.Dropped != 0 || st.Slow != 0 {
		t.Errorf("stats %+v, want none dropped and none slow", st)
	}
}

// TestReceiveMaximum lets a client acknowledge nothing (MQTT 5, 4.9).
func TestReceiveMaximum(t *testing.T) {
	s := start(t, liveness.Config{}, broker.Config{})
	c := s.connect(hello{id: "c", version: 5, change: func(pk *packets.Packet) { pk.Properties.ReceiveMaximum = 3 }})
	c.subscribe("x", 1)
	p := s.connect(hello{id: "p"})
	for i := range 10 {
		p.publish("x", strconv.Itoa(i), 1, false)
		p.want(packets.Puback)
	}
	for i := range 3 {
		c.message("x", strconv.Itoa(i))
	}
	c.ping() // nothing else came
	testwait.Until(t, "7 that are dropped", func() bool { return s.broker.Stats().Dropped == 7 })
}

func TestEmptyWill(t *testing.T) {
	s := start(t, quick, broker.Config{})
	if err := s.broker.Publish("w", []byte("here"), true); err != nil {
		t.Fatal(err)
	}
	c := s.connect(hello{id: "c", will: "w", willRetain: true, change: func(pk *packets.Packet) { pk.Connect.WillPayload = nil }})
	c.conn.Close()
	if e := s.event("c", liveness.DeviceOffline); e.Reason != liveness.Will {
		t.Errorf("reason is %v, want will", e.Reason)
	}
	testwait.Until(t, "an empty place", func() bool { return kept(s, "w") == "" })
}
