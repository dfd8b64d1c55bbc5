package route_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/grpc"

	"github.com/holter-iot/holter/internal/cluster/route"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/mqtt"
)

// Nothing with QoS 1 and 2 is lost or doubled, and nothing is out of order, while connections break.
func TestCuts(t *testing.T) {
	p := startPair(t)
	from, to := connect(t, p.one.broker, "from"), connect(t, p.two.broker, "to").subscribe("a")
	back, there := connect(t, p.two.broker, "back"), connect(t, p.one.broker, "there").subscribe("b")
	reach(from, to, "a")
	reach(back, there, "b")
	n := 200
	if testenv.Checks() {
		n = 600
	}
	var wantTo, wantThere []string
	for i := range n {
		from.publish("a", strconv.Itoa(i), uint8(1+i%2))
		back.publish("b", strconv.Itoa(i), uint8(1+i%2))
		wantTo = append(wantTo, fmt.Sprintf("a=%d q%d", i, 1+i%2))
		wantThere = append(wantThere, fmt.Sprintf("b=%d q%d", i, 1+i%2))
		for c := range slices.Values([]*client{from, to, back, there}) {
			c.read()
		}
		switch i % 100 {
		case 30:
			p.one.cut()
		case 60:
			p.two.cut()
		}
		if i%50 == 49 { // else more would wait for an acknowledgement than may
			testwait.Until(t, "these are acknowledged", func() bool {
				for c := range slices.Values([]*client{from, to, back, there}) {
					c.read()
				}
				return len(from.got) == i+1 && len(back.got) == i+1
			})
		}
	}
	to.wants(wantTo...)
	there.wants(wantThere...)
	for name, st := range map[string]route.Stats{"hub": p.hub.Stats(), "one": p.one.Stats(), "two": p.two.Stats()} {
		if st.Dropped > 0 {
			t.Errorf("%s dropped %d messages", name, st.Dropped)
		}
	}
	testwait.Until(t, "nothing waits", func() bool {
		return p.hub.Stats().QueuedBytes == 0 && p.one.Stats().QueuedBytes == 0 && p.two.Stats().QueuedBytes == 0
	})
}

// A client gets no acknowledgement before there is a hub that has its message, and gets it then.
func TestWithoutHub(t *testing.T) {
	h := startHub(t, mqtt.Config{}, route.Config{})
	s := newSpoke(t, h.address, "one", mqtt.Config{}, route.Config{MaxBytes: 4096})
	from, near := connect(t, s.broker, "from"), connect(t, s.broker, "near").subscribe("a")
	to := connect(t, h.broker, "to").subscribe("a")
	from.publish("a", "zero", 0)
	from.publish("a", "first", 1)
	near.wants("a=zero q0", "a=first q1")
	from.wants()
	for i := 0; s.Stats().QueuedBytes < 4096; i++ {
		from.publish("b", "filling", 1)
	}
	from.publish("a", "no room", 1) // the answer is Quota exceeded
	sent := int(from.id) - 1
	from.publish("a", "no room", 0)
	near.wants("a=no room q0")
	if st := s.Stats(); st.Dropped != 1 {
		t.Errorf("%d messages were dropped, want 1", st.Dropped)
	}
	s.start(t)
	testwait.Until(t, "all that waited is acknowledged", func() bool {
		from.read()
		return len(from.got) == sent
	})
	to.wants("a=zero q0", "a=first q1")
}

// A spoke whose hub passes nothing on is a broker of its own, and tries again with the next hub.
func TestNoHub(t *testing.T) {
	address, end := serve(t, "127.0.0.1:0", func(grpc.ServiceRegistrar) {})
	defer end()
	s := newSpoke(t, address, "one", mqtt.Config{}, route.Config{})
	from, near := connect(t, s.broker, "from"), connect(t, s.broker, "near").subscribe("a", "$share/g/a")
	from.publish("a", "early", 1)
	near.wants("a=early q1")
	s.start(t)
	from.wants("PUBACK 1") // now that it is clear
	from.publish("a", "x", 2)
	near.wants("a=x q2", "a=x q2")
	from.wants("PUBCOMP 2")
	from.retain("r", "1")
	from.wants("PUBACK 3")
	s.stop()
	h := startHub(t, mqtt.Config{}, route.Config{})
	to := connect(t, h.broker, "to").subscribe("a")
	s.lead(h.address)
	s.start(t)
	testwait.Until(t, "the spoke has its hub", s.joined)
	from.publish("a", "y", 1)
	from.wants("PUBACK 4")
	to.wants("a=y q1")
	near.wants("a=y q1", "a=y q1")
}

// When the hub is another, all filters are announced to it, and it gets what the one before has not taken.
func TestNextHub(t *testing.T) {
	p := startPair(t)
	to := connect(t, p.two.broker, "to").subscribe("a/#", "$share/g/b")
	from := connect(t, p.one.broker, "from")
	reach(from, to, "a/b")
	p.hub.stop()
	testwait.Until(t, "the spokes have noticed", func() bool { return !p.one.joined() && !p.two.joined() })
	from.publish("a/1", "meanwhile", 1)
	from.publish("b", "for one", 2)
	from.wants()
	p.hub = startHubAt(t, p.hub.address, mqtt.Config{}, route.Config{})
	testwait.Until(t, "the messages have come", func() bool {
		from.read()
		to.read()
		return len(from.got) == 2
	})
	// The filters of two may be announced after that; then the messages are gone, as for any subscriber
	// that comes later.
	reach(from, to, "a/2")
	from.publish("a/3", "to all", 1)
	to.wants("a/3=to all q1")
}

// A spoke that does not read is told what fits, and the rest is counted; nobody waits for it.
func TestSlowSpoke(t *testing.T) {
	h := startHub(t, mqtt.Config{}, route.Config{MaxBytes: 64 << 10})
	one, two := startSpoke(t, h.address, "one", mqtt.Config{}), startSpoke(t, h.address, "two", mqtt.Config{})
	from, to, near := connect(t, one.broker, "from"), connect(t, two.broker, "to").subscribe("#"), connect(t, h.broker, "near").subscribe("a")
	reach(from, to, "a")
	settle(from, near, "a")
	to.read()
	to.got = nil
	hear := two.deafen()
	defer hear()
	payload := string(make([]byte, 32<<10))
	for i := 0; h.Stats().Dropped < 20; i++ {
		from.publish("a", payload, 1)
		testwait.Until(t, "the message is acknowledged", func() bool { from.read(); return len(from.got) == i+1 })
		testwait.Until(t, "the others have it", func() bool { near.read(); return len(near.got) == i+1 })
		if n := h.Stats().QueuedBytes; n > 64<<10+48<<10 {
			t.Fatalf("%d bytes wait", n)
		}
	}
	from.retain("state", "dropped, too")
	hear()
	testwait.Until(t, "what is retained comes all the same", func() bool {
		to.read()
		return slices.ContainsFunc(to.got, func(s string) bool { return s == "state=dropped, too q1" })
	})
	testwait.Until(t, "nothing waits for the spoke", func() bool { return h.Stats().QueuedBytes == 0 })
	to.read()
	to.got = nil
	settle(from, to, "a")
}
