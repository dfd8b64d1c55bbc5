package mqtt_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// user is a grant: what it denies stands in it.
type user struct {
	name               string
	publish, subscribe []string // prefixes of what is denied
}

func (u user) User() string                    { return u.name }
func (u user) MayPublish(topic string) bool    { return !begins(topic, u.publish) }
func (u user) MaySubscribe(filter string) bool { return !begins(filter, u.subscribe) }
func (u user) Valid() bool                     { return true }

func begins(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// wire is the wire of a client in memory.
type wire struct {
	wakes  atomic.Int64
	closed atomic.Uint32 // the code; 0: it is open
}

func (w *wire) Wake()                  { w.wakes.Add(1) }
func (w *wire) Close(code packet.Code) { w.closed.Store(uint32(code)) }

// client is a client in memory.
type client struct {
	tb      testing.TB
	conn    *mqtt.Conn
	wire    *wire
	version packet.Version
	ack     packet.Connack
	now     time.Time
	in      []byte // what came and was not looked at
	room    int
}

func newBroker(tb testing.TB, cfg mqtt.Config) *mqtt.Broker {
	tb.Helper()
	b, err := mqtt.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// connect connects a client that speaks MQTT 5, with a clean session but for what change says.
func connect(tb testing.TB, b *mqtt.Broker, id string, change ...func(*packet.Connect)) *client {
	tb.Helper()
	return connectAs(tb, b, user{}, id, change...)
}

func connectAs(tb testing.TB, b *mqtt.Broker, g mqtt.Grant, id string, change ...func(*packet.Connect)) *client {
	tb.Helper()
	c, err := tryConnect(tb, b, g, id, change...)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func tryConnect(tb testing.TB, b *mqtt.Broker, g mqtt.Grant, id string, change ...func(*packet.Connect)) (*client, error) {
	tb.Helper()
	p := packet.Connect{Version: packet.V5, Clean: true, ClientID: []byte(id), ReceiveMaximum: 65_535}
	for _, f := range change {
		f(&p)
	}
	c := &client{tb: tb, wire: &wire{}, version: p.Version, now: time.Now(), room: 1 << 20}
	var err error
	c.conn, c.ack, err = b.Connect(&p, id, g, c.wire, c.now)
	return c, err
}

func v3(p *packet.Connect)         { p.Version = packet.V311 }
func persistent(p *packet.Connect) { p.Clean, p.SessionExpiry = false, 3600 }

// handle hands the packets in input to the broker.
func (c *client) handle(input []byte) error {
	for len(input) > 0 {
		h, body, n, err := packet.Split(c.version, input, packet.MaxSize)
		if err != nil || n == 0 {
			c.tb.Fatalf("Split = %d, %v", n, err)
		}
		if c.in, err = c.conn.Handle(c.in, h, body, c.now); err != nil {
			return err
		}
		for c.conn.Continue() {
		}
		input = input[n:]
	}
	return nil
}

func (c *client) send(input []byte) {
	c.tb.Helper()
	if err := c.handle(input); err != nil {
		c.tb.Fatal(err)
	}
}

// pump takes all that waits.
func (c *client) pump() {
	for n, more := 0, true; more; n++ {
		if c.in, more = c.conn.Pump(c.in, c.room, c.now); n == 100_000 {
			c.tb.Fatal("there is always more")
		}
	}
}

// next returns the next packet as text, "" if there is none.
func (c *client) next() string {
	c.tb.Helper()
	c.pump()
	if len(c.in) == 0 {
		return ""
	}
	h, body, n, err := packet.Split(c.version, c.in, packet.MaxSize)
	if err != nil || n == 0 {
		c.tb.Fatalf("Split = %d, %v of %x", n, err, c.in)
	}
	c.in = c.in[n:]
	return c.text(h, body)
}

func (c *client) text(h packet.Header, body []byte) string {
	c.tb.Helper()
	var err error
	var b strings.Builder
	switch h.Type {
	case packet.TypePublish:
		var p packet.Publish
		err = p.DecodeFromServer(c.version, h, body)
		fmt.Fprintf(&b, "%s=%s", p.Topic, p.Payload)
		if p.QoS > 0 {
			fmt.Fprintf(&b, " q%d #%d", p.QoS, p.ID)
		}
		if p.Retain {
			b.WriteString(" retain")
		}
		if p.Dup {
			b.WriteString(" dup")
		}
		if p.Alias != 0 {
			fmt.Fprintf(&b, " alias%d", p.Alias)
		}
		if p.HasExpiry {
			fmt.Fprintf(&b, " expiry%d", p.Expiry)
		}
		for id, ok := p.NextIdentifier(); ok; id, ok = p.NextIdentifier() {
			fmt.Fprintf(&b, " s%d", id)
		}
	case packet.TypePuback, packet.TypePubrec, packet.TypePubrel, packet.TypePubcomp:
		var p packet.Ack
		err = p.Decode(c.version, h, body)
		fmt.Fprintf(&b, "%v #%d 0x%02x", h.Type, p.ID, uint8(p.Code))
	case packet.TypeSuback:
		var p packet.Suback
		err = p.Decode(c.version, body)
		fmt.Fprintf(&b, "SUBACK #%d", p.ID)
		for code, ok := p.Next(); ok; code, ok = p.Next() {
			fmt.Fprintf(&b, " 0x%02x", uint8(code))
		}
	case packet.TypeUnsuback:
		var p packet.Unsuback
		err = p.Decode(c.version, body)
		fmt.Fprintf(&b, "UNSUBACK #%d", p.ID)
		for code, ok := p.Next(); ok; code, ok = p.Next() {
			fmt.Fprintf(&b, " 0x%02x", uint8(code))
		}
	default:
		fmt.Fprintf(&b, "%v", h.Type)
	}
	if err != nil {
		c.tb.Fatalf("%v: %v", h.Type, err)
	}
	return b.String()
}

// wants checks that these packets come, and no more.
func (c *client) wants(want ...string) {
	c.tb.Helper()
	for _, w := range append(want, "") {
		if got := c.next(); got != w {
			c.tb.Fatalf("the client got %q, want %q", got, w)
		}
	}
}

func (c *client) subscribe(filters ...string) {
	c.tb.Helper()
	for _, f := range filters {
		c.subscribeTo(packet.Filter{Topic: []byte(f), QoS: 2}, 0)
	}
}

func (c *client) subscribeTo(f packet.Filter, identifier uint32) {
	c.tb.Helper()
	c.send(packet.AppendSubscribe(nil, c.version, 1, identifier, f))
	if got, want := c.next(), fmt.Sprintf("SUBACK #1 0x%02x", f.QoS); got != want {
		c.tb.Fatalf("the answer is %q, want %q", got, want)
	}
}

func (c *client) publish(topic, payload string) {
	c.tb.Helper()
	c.publishOut(packet.Out{Topic: topic, Payload: []byte(payload)})
}

func (c *client) publishOut(o packet.Out) {
	c.tb.Helper()
	c.send(o.Append(nil, c.version))
}

func (c *client) retain(topic, payload string) {
	c.tb.Helper()
	c.publishOut(packet.Out{Topic: topic, Payload: []byte(payload), Retain: true})
}

// ackFor sends an acknowledgement.
func (c *client) ackFor(t packet.Type, id uint16) {
	c.tb.Helper()
	c.send(packet.AppendAck(nil, c.version, t, id, packet.Success))
}

// fails checks that input ends the connection with a code.
func (c *client) fails(input []byte, want packet.Code) {
	c.tb.Helper()
	err := c.handle(input)
	if e, ok := errors.AsType[*packet.Error](err); !ok || e.Code != want {
		c.tb.Fatalf("Handle = %v, want the code %v", err, want)
	}
}

func (c *client) drop()       { c.conn.Close(mqtt.Ending{}, c.now) }
func (c *client) disconnect() { c.conn.Close(mqtt.Ending{Clean: true}, c.now) }

func (c *client) retainFor(topic string, seconds uint32) {
	c.tb.Helper()
	c.publishOut(packet.Out{Topic: topic, Payload: []byte("x"), Retain: true, HasExpiry: true, Expiry: seconds})
}
