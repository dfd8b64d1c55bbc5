package mqtt_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// most is the bound of what is held in these tests, and quiet the configuration with it.
const most = 1 << 20

var quiet = mqtt.Config{MaxHeldBytes: most, Logger: slog.New(slog.DiscardHandler)}

// checkHeld checks that what is counted is what is held, and in its bounds.
func checkHeld(t *testing.T, b *mqtt.Broker) {
	t.Helper()
	if got, want := b.Stats().HeldBytes, b.Held(); got != want || got > most {
		t.Fatalf("%d bytes are counted, want %d, and %d at most", got, want, most)
	}
}

// TestHeldOnce checks that a message counts once, however many queues it is in.
func TestHeldOnce(t *testing.T) {
	b := newBroker(t, quiet)
	readers := make([]*client, 200)
	for i := range readers {
		readers[i] = connect(t, b, strconv.Itoa(i))
		readers[i].subscribe("a")
	}
	other := connect(t, b, "other")
	other.publish("a", strings.Repeat("x", 5000))
	if got := b.Stats().HeldBytes; got < 5000 || got > 5000+200*200 {
		t.Errorf("%d bytes are held, want some 25,000", got)
	}
	for i, c := range readers {
		checkHeld(t, b)
		if i%2 == 0 {
			c.next()
		} else {
			c.drop()
		}
	}
	if st := b.Stats(); st.HeldBytes != 0 || st.Dropped != 0 {
		t.Errorf("Stats = %+v, want nothing held and nothing dropped", st)
	}
}

// TestHoarders checks that clients which do not read cannot have what others get be dropped.
func TestHoarders(t *testing.T) {
	b := newBroker(t, quiet)
	other := connect(t, b, "other")
	payload := strings.Repeat("x", 1000)
	for i := range 300 { // some leave, and their queues stay
		topic := fmt.Sprint("hoard/", i)
		c := connect(t, b, topic, persistent)
		c.subscribe(topic)
		for id := range uint16(60) {
			other.publishOut(packet.Out{Topic: topic, QoS: uint8(i % 3), ID: id + 1, Payload: []byte(payload)})
			other.pump()
			for other.in = nil; i%3 == 2; { // PUBREL, so that no ids are remembered
				other.ackFor(packet.TypePubrel, id+1)
				break
			}
		}
		other.pump()
		if other.in = nil; i%4 == 0 {
			c.drop()
		}
		checkHeld(t, b)
	}
	st := b.Stats()
	if st.Dropped == 0 || st.HeldBytes < most/2 {
		t.Fatalf("Stats = %+v, want that almost all is held", st)
	}
	reader := connect(t, b, "reader")
	reader.subscribe("a")
	for range 100 {
		for range 3 {
			other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 1, Payload: []byte(payload)})
		}
		for range 3 {
			if got := reader.next(); !strings.HasPrefix(got, "a=xxx") {
				t.Fatalf("the reader got %q", got)
			}
		}
		reader.conn.Close(mqtt.Ending{}, reader.now)
		reader = connect(t, b, "reader")
		reader.subscribe("a")
	}
	if got := b.Stats().Dropped; got != st.Dropped {
		t.Errorf("%d messages were dropped for one who reads", got-st.Dropped)
	}
	other.in = nil
	other.publishOut(packet.Out{Topic: "hoard/2", QoS: 1, ID: 1, Payload: []byte(payload)})
	other.wants("PUBACK #1 0x97")
	for i := range 300 { // they come back, and read
		c := connect(t, b, fmt.Sprint("hoard/", i))
		c.drop()
	}
	reader.drop()
	if got := b.Stats().HeldBytes; got != 0 {
		t.Errorf("%d bytes are held, want none", got)
	}
}

// TestQoS0First checks that messages with QoS 0 are dropped before those with QoS 1.
func TestQoS0First(t *testing.T) {
	b := newBroker(t, quiet)
	c, other := connect(t, b, "c"), connect(t, b, "other")
	c.subscribe("a")
	payload := make([]byte, 1000)
	for range 40 {
		other.publishOut(packet.Out{Topic: "a", Payload: payload})
	}
	dropped := b.Stats().Dropped
	if dropped == 0 || dropped == 40 {
		t.Fatalf("%d messages with QoS 0 were dropped", dropped)
	}
	other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 1, Payload: payload})
	other.wants("PUBACK #1 0x00")
	other.publishOut(packet.Out{Topic: "a", Payload: payload})
	if got := b.Stats().Dropped; got != dropped+1 {
		t.Errorf("%d more were dropped, want the one with QoS 0", got-dropped)
	}
	checkHeld(t, b)
}

// withLargeWill gives a client a will of so many bytes.
func withLargeWill(n int, delay uint32) func(*packet.Connect) {
	return func(p *packet.Connect) {
		withWill(delay)(p)
		p.Will.Payload = make([]byte, n)
	}
}

// TestHeldSessions checks that sessions of clients that are away have a bound together, with their
// wills, and that a will is published at once whose session is not kept.
func TestHeldSessions(t *testing.T) {
	for _, n := range []int{10, 3000, 60_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			b := newBroker(t, quiet)
			watcher := connect(t, b, "watcher")
			watcher.subscribeTo(packet.Filter{Topic: []byte("will/#")}, 0)
			refused := 0
			for i := range 3000 {
				c, err := tryConnect(t, b, user{}, strconv.Itoa(i), persistent, withLargeWill(n, 60))
				if err != nil {
					if n < 4000 || c.ack.Code != packet.QuotaExceeded {
						t.Fatalf("Connect = %+v, %v", c.ack, err)
					}
					refused++
					continue
				}
				before := b.Stats()
				told := c.ack.SessionExpiry == 1
				c.drop()
				switch st := b.Stats(); {
				case st.Sessions == before.Sessions: // it is kept
				case !told || watcher.next() == "":
					t.Fatalf("client %d was not told that its session is not kept, or its will is not published", i)
				}
				watcher.in = nil
				checkHeld(t, b)
			}
			st := b.Stats()
			if st.HeldBytes > most*3/4 || n < 4000 && (st.SessionsRefused == 0 || st.HeldBytes < most/4) || n > 4000 && refused == 0 {
				t.Errorf("%d wills were refused, Stats = %+v", refused, st)
			}
			// Whoever has little can still connect, subscribe and be sent something.
			c := connect(t, b, "modest", withWill(0))
			c.subscribe("a", "b/+")
			watcher.publish("a", strings.Repeat("x", 3000))
			if got := c.next(); len(got) != 3002 {
				t.Errorf("the client got %d bytes", len(got))
			}
			c.disconnect()
			watcher.disconnect()
			for i := range 3000 {
				connect(t, b, strconv.Itoa(i)).disconnect()
			}
			if got := b.Stats().HeldBytes; got != 0 {
				t.Errorf("%d bytes are held, want none", got)
			}
		})
	}
}

// TestHeldSubscriptions checks that long filters have a bound together.
func TestHeldSubscriptions(t *testing.T) {
	b := newBroker(t, quiet)
	long := strings.Repeat("/", 60) + strings.Repeat("x", 900) + "/+"
	granted := 0
	clients := make([]*client, 100)
	for i := range clients {
		c := connect(t, b, strconv.Itoa(i), persistent)
		for j := range 20 {
			c.send(packet.AppendSubscribe(nil, c.version, 1, 0, packet.Filter{Topic: fmt.Append(nil, i, "/", j, long)}))
			switch got := c.next(); got {
			case "SUBACK #1 0x00":
				granted++
			case "SUBACK #1 0x97":
			default:
				t.Fatalf("the answer is %q", got)
			}
		}
		c.subscribe(fmt.Sprint("mine/", i)) // again and again
		c.subscribe(fmt.Sprint("mine/", i))
		checkHeld(t, b)
		clients[i] = c
	}
	st := b.Stats()
	if granted == 0 || granted == 2000 || st.Subscriptions != granted+100 || int(st.SubscriptionsRefused) != 2000-granted {
		t.Errorf("%d subscriptions were granted, Stats = %+v", granted, st)
	}
	for i, c := range clients {
		c.send(packet.AppendUnsubscribe(nil, c.version, 1, fmt.Append(nil, i, "/0", long)))
		checkHeld(t, b)
		if c.drop(); i%2 == 0 {
			connect(t, b, strconv.Itoa(i), persistent).conn.Close(mqtt.Ending{}, c.now)
		}
		checkHeld(t, b)
		connect(t, b, strconv.Itoa(i)).drop()
	}
	if got := b.Stats(); got.HeldBytes != 0 || got.Subscriptions != 0 {
		t.Errorf("Stats = %+v, want nothing held", got)
	}
}

// TestHeldIDs checks that ids of messages with QoS 2 which are never released have a bound together.
func TestHeldIDs(t *testing.T) {
	b := newBroker(t, quiet)
	for i := range 100 {
		c := connect(t, b, strconv.Itoa(i), v3, func(p *packet.Connect) { p.Clean = i%2 == 0 })
		for id := range uint16(3000) {
			c.publishOut(packet.Out{Topic: "a", QoS: 2, ID: id + 1})
		}
		checkHeld(t, b)
		if i%3 == 0 {
			c.ackFor(packet.TypePubrel, 1)
			c.drop()
			checkHeld(t, b)
		}
	}
	if st := b.Stats(); st.Dropped == 0 || st.HeldBytes < most/2 {
		t.Errorf("Stats = %+v", st)
	}
	c := connect(t, b, "c")
	c.publishOut(packet.Out{Topic: "a", QoS: 2, ID: 1})
	c.wants("PUBREC #1 0x10")
	for i := range 100 {
		connect(t, b, strconv.Itoa(i)).drop()
	}
	c.drop()
	if got := b.Stats().HeldBytes; got != 0 {
		t.Errorf("%d bytes are held, want none", got)
	}
}

// TestHeldAtRandom has clients do anything at all with too little room.
func TestHeldAtRandom(t *testing.T) {
	seeds := uint64(5)
	if testenv.Checks() {
		seeds *= 4
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 9))
		b := newBroker(t, quiet)
		clients := make(map[string]*client)
		for range 1500 {
			id := strconv.Itoa(random.IntN(30))
			c := clients[id]
			if c == nil || random.IntN(20) == 0 {
				c, err := tryConnect(t, b, user{}, id, func(p *packet.Connect) {
					p.Clean = random.IntN(5) == 0
					p.SessionExpiry = uint32(random.IntN(3) * 100)
					if random.IntN(2) == 0 {
						withLargeWill(random.IntN(6000), uint32(random.IntN(2)*50))(p)
					}
				})
				if clients[id] = c; err != nil {
					delete(clients, id)
				}
				continue
			}
			switch random.IntN(20) {
			case 0:
				c.drop()
				delete(clients, id)
			case 1, 2, 3:
				c.pump()
				c.in = nil
			case 4:
				id := uint16(1 + random.IntN(2000))
				_ = c.handle((&packet.Out{Topic: "none", QoS: 2, ID: id}).Append(nil, c.version))
			default:
				input := randomPacket(random, c.version)
				if random.IntN(3) == 0 {
					input = (&packet.Out{Topic: "a", Payload: make([]byte, random.IntN(60_000)), QoS: uint8(random.IntN(2)), ID: 7}).Append(nil, c.version)
				}
				if c.handle(input) != nil {
					c.drop()
					delete(clients, id)
				}
			}
			checkHeld(t, b)
		}
		for i := range 30 {
			connect(t, b, strconv.Itoa(i)).drop()
		}
		if got := b.Stats().HeldBytes; got != 0 {
			t.Fatalf("with seed %d, %d bytes are held at the end", seed, got)
		}
	}
}

// TestHeldSizes checks that what counts is about what is taken.
func TestHeldSizes(t *testing.T) {
	const n = 5000
	tests := []struct {
		name string
		make func(b *mqtt.Broker, c *client, i int)
	}{
		{"sessions", func(*mqtt.Broker, *client, int) {}},
		{"exact filters", func(_ *mqtt.Broker, c *client, i int) { c.subscribe(fmt.Sprintf("site/%d/cmd", i)) }},
		{"one filter for all", func(_ *mqtt.Broker, c *client, _ int) { c.subscribe("site/+/cmd") }},
		{"wildcards", func(_ *mqtt.Broker, c *client, i int) { c.subscribe(fmt.Sprintf("site/%d/cmd/#", i)) }},
		{"deep wildcards", func(_ *mqtt.Broker, c *client, i int) {
			c.subscribe(strconv.Itoa(i) + strings.Repeat("/"+strconv.Itoa(i), 30) + "/+")
		}},
		{"messages", func(b *mqtt.Broker, c *client, i int) {
			topic := strconv.Itoa(i)
			c.subscribe(topic)
			other := connect(c.tb, b, "other")
			for id := range uint16(10) {
				other.publishOut(packet.Out{Topic: topic, QoS: 1, ID: id + 1, Payload: make([]byte, 100)})
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBroker(t, mqtt.Config{})
			w := &wire{}
			before := heap()
			for i := range n {
				c := connect(t, b, fmt.Sprintf("device-%06d", i), persistent, func(p *packet.Connect) { p.SessionExpiry = 1000 })
				c.wire = w
				tt.make(b, c, i)
				c.drop()
			}
			taken := int(heap()-before) / n
			counted := b.Stats().HeldBytes / n
			t.Logf("%d bytes each, counted as %d", taken, counted)
			if counted < taken*3/4 || counted > taken*5/2 {
				t.Errorf("each takes %d bytes and is counted as %d", taken, counted)
			}
			runtime.KeepAlive(b)
		})
	}
}

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools give back what they have only now
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
