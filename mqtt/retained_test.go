package mqtt_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

func TestRetained(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c := connect(t, b, "c")
	c.retain("a/b", "1")
	c.retain("a/b", "2")
	c.retain("a", "3")
	if err := b.Publish("holter/x", []byte("4"), true); err != nil {
		t.Fatal(err)
	}
	c.subscribe("a/b")
	c.wants("a/b=2 retain")
	c.subscribe("holter/+")
	c.wants("holter/x=4 retain")
	if st := b.Stats(); st.Retained != 2 || st.RetainedBytes == 0 {
		t.Errorf("Stats = %+v, want 2 retained", st)
	}
	c.retain("a/b", "")
	c.retain("a", "")
	c.retain("never", "")
	if err := b.Publish("holter/x", nil, true); err != nil {
		t.Fatal(err)
	}
	c.wants("a/b=", "holter/x=")
	if st := b.Stats(); st.Retained != 0 || st.RetainedBytes != 0 || len(b.Retained("#")) != 0 {
		t.Errorf("Stats = %+v, want none retained", st)
	}
}

// What is retained after a subscription was made comes once, as it was published, also if the client has not got
// anything of the subscription yet. What it has missed comes all the same.
func TestRetainedMeanwhile(t *testing.T) {
	put := func(b *mqtt.Broker, payload string, retain bool) {
		if err := b.Publish("a", []byte(payload), retain); err != nil {
			t.Error(err)
		}
	}
	for _, filter := range []string{"a", "+", "#"} {
		for _, tt := range []struct {
			name      string
			meanwhile func(b *mqtt.Broker, c *client) *client // between SUBSCRIBE and what is sent then
			want      []string
		}{
			{"nothing", func(_ *mqtt.Broker, c *client) *client { return c }, []string{"a=old retain"}},
			{"another", func(b *mqtt.Broker, c *client) *client {
				put(b, "new", true)
				return c
			}, []string{"a=new"}},
			{"another, and what is not retained", func(b *mqtt.Broker, c *client) *client {
				put(b, "new", true)
				put(b, "not kept", false)
				return c
			}, []string{"a=new", "a=not kept"}},
			{"another while it is away", func(b *mqtt.Broker, c *client) *client {
				c.drop()
				put(b, "new", true)
				return connect(t, b, "c", persistent)
			}, []string{"a=new retain"}},
			{"more than its queue has room for", func(b *mqtt.Broker, c *client) *client {
				for i := range 5 {
					put(b, strconv.Itoa(i), true)
				}
				return c
			}, []string{"a=0", "a=1", "a=2", "a=4 retain"}},
		} {
			t.Run(filter+", "+tt.name, func(t *testing.T) {
				b := newBroker(t, mqtt.Config{MaxQueue: 3})
				put(b, "old", true)
				c := connect(t, b, "c", persistent)
				c.send(packet.AppendSubscribe(nil, c.version, 1, 0, packet.Filter{Topic: []byte(filter), QoS: 1}))
				c.in = nil // SUBACK
				c = tt.meanwhile(b, c)
				c.wants(tt.want...)
			})
		}
	}
}

// TestManyRetained checks that retained messages are sent as they fit, and that none of them is
// dropped, nor what is published meanwhile.
func TestManyRetained(t *testing.T) {
	const n = 5000
	b := newBroker(t, mqtt.Config{MaxQueue: 50})
	for i := range n {
		if err := b.Publish(fmt.Sprintf("r/%d", i), []byte("old"), true); err != nil {
			t.Fatal(err)
		}
	}
	for _, filter := range []string{"#", "r/+", "r/4321"} {
		for qos := range uint8(3) {
			t.Run(fmt.Sprint(filter, qos), func(t *testing.T) {
				c := connect(t, b, "c", func(p *packet.Connect) { p.ReceiveMaximum = 10 })
				c.subscribeTo(packet.Filter{Topic: []byte(filter), QoS: qos}, 0)
				c.room = 500
				want := n
				if filter == "r/4321" {
					want = 1
				}
				got := make(map[string]int)
				lives := 0
				for i := 0; ; i++ {
					if c.in, _ = c.conn.Pump(c.in, c.room, c.now); len(c.in) == 0 {
						break
					}
					for len(c.in) > 0 {
						h, body, size, err := packet.Split(c.version, c.in, 1000)
						if err != nil {
							t.Fatal(err)
						}
						c.in = c.in[size:]
						if s := c.text(h, body); s == "r/live=x" {
							lives++
						} else {
							got[s]++
						}
					}
					if i < 200 && filter == "#" {
						if err := b.Publish("r/live", []byte("x"), false); err != nil {
							t.Fatal(err)
						}
					}
				}
				if len(got) != want || filter == "#" && lives != 200 || b.Stats().Dropped != 0 {
					t.Errorf("the client got %d retained messages and %d others, want %d and 200; %d were dropped", len(got), lives, want, b.Stats().Dropped)
				}
				c.drop()
			})
		}
	}
}

func TestRetainedQoS(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	other := connect(t, b, "other")
	for i := range 40 {
		other.publishOut(packet.Out{Topic: fmt.Sprintf("r/%02d", i), QoS: 1, ID: 1, Payload: []byte("x"), Retain: true})
		other.wants("PUBACK #1 0x10")
	}
	c := connect(t, b, "c", persistent, func(p *packet.Connect) { p.ReceiveMaximum = 1 })
	c.subscribe("r/#")
	seen := 0
	for {
		s := c.next()
		if s == "" {
			break
		}
		if seen++; seen == 20 { // it comes back and gets the rest
			c.drop()
			c = connect(t, b, "c", persistent)
			continue
		}
		for id := uint16(1); id < 100; id++ {
			c.ackFor(packet.TypePuback, id)
		}
	}
	if seen != 41 {
		t.Errorf("the client got %d messages, want 40 and one again", seen)
	}
	c.subscribe("r/#")
	c.send(packet.AppendUnsubscribe(nil, c.version, 1, []byte("r/#")))
	c.in = nil
	c.wants()
}

func TestRetainedBounds(t *testing.T) {
	b := newBroker(t, mqtt.Config{MaxRetained: 2, MaxRetainedBytes: 1 << 10})
	c := connect(t, b, "c")
	c.subscribe("#")
	c.retain("a", "1")
	c.retain("b", "1")
	c.retain("c", "1") // too many
	c.retain("a", "2")
	c.publishOut(packet.Out{Topic: "b", Payload: make([]byte, 1024), Retain: true}) // too large
	c.in = nil
	c.pump()
	c.in = nil
	if got := b.Retained("#"); len(got) != 2 || string(got["a"]) != "2" || string(got["b"]) != "1" {
		t.Errorf("Retained = %q", got)
	}
	if got := b.Stats().RetainedRefused; got != 2 {
		t.Errorf("%d were refused, want 2", got)
	}
	if err := b.Publish("holter/x", []byte("1"), true); err != nil {
		t.Fatal(err)
	}
	c.wants("holter/x=1")
	if st := b.Stats(); st.Retained != 2 || len(b.Retained("holter/#")) != 1 {
		t.Errorf("Stats = %+v", st)
	}
}
