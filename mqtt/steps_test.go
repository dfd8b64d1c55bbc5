package mqtt_test

import (
	"strconv"
	"testing"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// A message with QoS 0 to many is passed on in steps. However it is finished, each gets it once, before the next.
func TestSteps(t *testing.T) {
	const n = 1000
	handle := func(c *client, payload string) {
		h, body, _, _ := packet.Split(c.version, (&packet.Out{Topic: "a", Payload: []byte(payload)}).Append(nil, c.version), packet.MaxSize)
		if _, err := c.conn.Handle(nil, h, body, c.now); err != nil {
			t.Error(err)
		}
		clear(body) // it is not kept
	}
	ways := map[string]struct {
		finish func(*client)
		want   []string
	}{
		"Continue":       {func(c *client) { c.conn.Continue() }, []string{"a=first"}},
		"a next message": {func(c *client) { handle(c, "second") }, []string{"a=first", "a=second"}},
		"Close":          {func(c *client) { c.drop() }, []string{"a=first"}},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t, mqtt.Config{})
			publisher := connect(t, b, "publisher")
			receivers := make([]*client, n)
			for i := range receivers {
				receivers[i] = connect(t, b, strconv.Itoa(i))
				receivers[i].subscribe("a")
			}
			handle(publisher, "first")
			got := 0
			for _, r := range receivers {
				if r.pump(); len(r.in) > 0 {
					got++
				}
			}
			if got == 0 || got > n/2 || !publisher.conn.Unfinished() {
				t.Fatalf("%d of %d have it in the first step, unfinished: %t; want some, and the message to be unfinished", got, n, publisher.conn.Unfinished())
			}
			receivers[n-1].drop() // before its turn
			way.finish(publisher)
			for i := 0; publisher.conn.Continue(); i++ {
				if i == n {
					t.Fatal("it is never finished")
				}
			}
			for _, r := range receivers[:n-1] {
				r.wants(way.want...)
			}
		})
	}
}
