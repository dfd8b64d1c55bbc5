package mqtt_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// TestMatchModel holds subscriptions and retained messages against a naive matcher.
func TestMatchModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			b := newBroker(t, mqtt.Config{})
			clients := make([]*client, 4)
			has := make([]map[string]bool, len(clients))
			retained := make(map[string]bool)
			for i := range clients {
				clients[i], has[i] = connect(t, b, strconv.Itoa(i)), make(map[string]bool)
			}
			for n := range 400 {
				i := random.IntN(len(clients))
				c := clients[i]
				switch filter, topic := anyOf(random, "a", "ab", "", "$x", "+", "#"), anyOf(random, "a", "ab", "", "$x"); random.IntN(4) {
				case 0:
					if !packet.ValidFilter([]byte(filter)) {
						continue
					}
					c.subscribeTo(packet.Filter{Topic: []byte(filter)}, 0)
					has[i][filter] = true
					checkTopics(t, c, func(topic string) bool { return retained[topic] && naive(filter, topic) }, retained)
					all := b.Retained(filter)
					for topic := range retained {
						if _, ok := all[topic]; ok != naive(filter, topic) {
							t.Errorf("Retained(%q) has %q: %v", filter, topic, ok)
						}
					}
				case 1:
					for filter := range has[i] {
						c.send(packet.AppendUnsubscribe(nil, c.version, 1, []byte(filter)))
						c.wants("UNSUBACK #1 0x00")
						delete(has[i], filter)
						break
					}
				case 2:
					if topic == "" {
						continue
					}
					payload := []string{"", "x"}[random.IntN(2)]
					c.retain(topic, payload)
					if delete(retained, topic); payload != "" {
						retained[topic] = true
					}
					for _, c := range clients {
						c.in = c.in[:0]
						c.pump()
						c.in = c.in[:0]
					}
				case 3:
					if topic == "" {
						continue
					}
					c.publish(topic, strconv.Itoa(n))
					for k, receiver := range clients {
						var want []string
						for filter := range has[k] {
							if naive(filter, topic) {
								want = []string{fmt.Sprintf("%s=%d", topic, n)}
							}
						}
						receiver.wants(want...)
					}
				}
			}
		})
	}
}

// checkTopics checks that the messages come whose topics match, each once.
func checkTopics(t *testing.T, c *client, match func(string) bool, topics map[string]bool) {
	t.Helper()
	got := make(map[string]bool)
	for s := c.next(); s != ""; s = c.next() {
		topic := strings.TrimSuffix(s, "=x retain")
		if got[topic] || !match(topic) {
			t.Fatalf("the client got %q", s)
		}
		got[topic] = true
	}
	for topic := range topics {
		if match(topic) && !got[topic] {
			t.Fatalf("the client did not get %q", topic)
		}
	}
}

// anyOf returns one to three of words, with slashes between.
func anyOf(random *rand.Rand, words ...string) string {
	var parts []string
	for range 1 + random.IntN(3) {
		parts = append(parts, words[random.IntN(len(words))])
	}
	return strings.Join(parts, "/")
}

// naive reports whether a filter matches a topic.
func naive(filter, topic string) bool {
	if topic[0] == '$' && filter != "" && strings.Contains("+#", filter[:1]) {
		return false
	}
	f, t := strings.Split(filter, "/"), strings.Split(topic, "/")
	for i, part := range f {
		switch {
		case part == "#":
			return true
		case i == len(t), part != "+" && part != t[i]:
			return false
		}
	}
	return len(f) == len(t)
}

func TestOverlap(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c, other := connect(t, b, "c"), connect(t, b, "other")
	c.subscribeTo(packet.Filter{Topic: []byte("a/#"), QoS: 0}, 7)
	c.subscribeTo(packet.Filter{Topic: []byte("a/+"), QoS: 1}, 0)
	c.subscribeTo(packet.Filter{Topic: []byte("a/b"), QoS: 0, RetainAsPublished: true}, 8)
	other.publishOut(packet.Out{Topic: "a/b", Payload: []byte("x"), QoS: 2, ID: 5})
	c.wants("a/b=x q1 #1 s8 s7")
	other.wants("PUBREC #5 0x00")
}

func TestOptions(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c, other := connect(t, b, "c"), connect(t, b, "other")
	c.subscribeTo(packet.Filter{Topic: []byte("a"), NoLocal: true, RetainAsPublished: true}, 0)
	c.publish("a", "own")
	other.retain("a", "1")
	c.wants("a=1 retain")
	c.subscribeTo(packet.Filter{Topic: []byte("a")}, 0) // the options are replaced, and it is sent again
	c.wants("a=1 retain")
	c.retain("a", "2")
	c.wants("a=2")
	c.subscribeTo(packet.Filter{Topic: []byte("a"), RetainHandling: 1}, 0)
	c.wants()
	c.subscribeTo(packet.Filter{Topic: []byte("+"), RetainHandling: 1}, 0)
	c.wants("a=2 retain")
	c.subscribeTo(packet.Filter{Topic: []byte("#"), RetainHandling: 2}, 0)
	c.wants()
	c.publish("a", "3")
	c.wants("a=3")
}

func TestSubscribeRefused(t *testing.T) {
	b := newBroker(t, mqtt.Config{MaxSubscriptions: 2})
	c := connectAs(t, b, user{subscribe: []string{"secret/"}}, "c")
	f := func(s string) packet.Filter { return packet.Filter{Topic: []byte(s)} }
	c.send(packet.AppendSubscribe(nil, c.version, 9, 0, f("a"), f("a/#/b"), f("secret/x"), f("a"), f("b"), f("c"), f(strings.Repeat("/", 64))))
	c.wants("SUBACK #9 0x00 0x8f 0x87 0x00 0x00 0x97 0x8f")
	c.send(packet.AppendUnsubscribe(nil, c.version, 10, []byte("a"), []byte("c")))
	c.wants("UNSUBACK #10 0x00 0x11")
	c.fails(packet.AppendUnsubscribe(nil, c.version, 10, []byte("#/a")), packet.InvalidFilter)
	if got := b.Stats(); got.Subscriptions != 1 || got.SubscriptionsRefused != 4 {
		t.Errorf("Stats = %+v, want 1 subscription and 4 refused", got)
	}
	old := connect(t, b, "old", v3)
	old.send(packet.AppendSubscribe(nil, old.version, 9, 0, f("a/#/b"), f("b")))
	old.wants("SUBACK #9 0x80 0x00")
}

func TestManySubscriptions(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c := connect(t, b, "c")
	for i := range 100 {
		c.subscribe(fmt.Sprintf("a/%d", i))
	}
	for i := range 100 {
		c.publish(fmt.Sprintf("a/%d", i), "x")
		c.wants(fmt.Sprintf("a/%d=x", i))
		c.send(packet.AppendUnsubscribe(nil, c.version, 1, fmt.Appendf(nil, "a/%d", i)))
		c.wants("UNSUBACK #1 0x00")
		c.publish(fmt.Sprintf("a/%d", i), "x")
		c.wants()
	}
	if got := b.Stats().Subscriptions; got != 0 {
		t.Errorf("there are %d subscriptions, want 0", got)
	}
}

// A SUBSCRIBE with very many filters is worked off in turns, and answered with the last.
func TestManyFilters(t *testing.T) {
	const most, all = 100, 31_000
	half := func(c *client) (body []byte) {
		t.Helper()
		var filters []packet.Filter
		for i := range all {
			filters = append(filters, packet.Filter{Topic: []byte(strconv.Itoa(i))})
		}
		h, body, _, err := packet.Split(c.version, packet.AppendSubscribe(nil, c.version, 7, 0, filters...), packet.MaxSize)
		if err != nil {
			t.Fatal(err)
		}
		if c.in, err = c.conn.Handle(c.in, h, body, c.now); err != nil || len(c.in) > 0 {
			t.Fatalf("Handle answers with %d bytes, %v, want that it goes on later", len(c.in), err)
		}
		return body
	}
	b := newBroker(t, mqtt.Config{MaxSubscriptions: most})
	c, other := connect(t, b, "c"), connect(t, b, "other")
	clear(half(c))
	turns := 0
	for ; c.conn.Unfinished(); turns++ {
		c.conn.Continue()
	}
	if turns < all/100 {
		t.Errorf("done in %d turns", turns)
	}
	c.wants("SUBACK #7" + strings.Repeat(" 0x00", most) + strings.Repeat(" 0x97", all-most))
	other.publish(strconv.Itoa(most-1), "x")
	other.publish(strconv.Itoa(most), "x")
	c.wants(strconv.Itoa(most-1) + "=x")
	gone := connect(t, b, "gone")
	half(gone)
	if gone.drop(); gone.conn.Unfinished() {
		t.Error("it goes on after the end of its connection")
	}
}

// A copy of a message carries the identifiers of all subscriptions that want it (MQTT 5, 3.3.4), however
// many: they are not copied once for each.
func TestManyIdentifiers(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c, other := connect(t, b, "c"), connect(t, b, "other")
	const all = 512 // which want it: each level of nine is itself, or +
	want := make(map[string]bool)
	for i := range all {
		filter := make([]string, 9)
		for level := range filter {
			filter[level] = []string{"a", "+"}[i>>level&1]
		}
		c.subscribeTo(packet.Filter{Topic: []byte(strings.Join(filter, "/"))}, uint32(i+1))
		want[fmt.Sprint("s", i+1)] = true
	}
	topic := strings.Repeat("/a", 9)[1:]
	other.publish(topic, "x")
	for _, word := range strings.Fields(c.next())[1:] {
		if !want[word] {
			t.Errorf("identifier %s, a second time or nobody's", word)
		}
		delete(want, word)
	}
	if len(want) > 0 {
		t.Errorf("%d identifiers are missing", len(want))
	}
	if n := testing.AllocsPerRun(10, func() { other.publish(topic, "x") }); n > 100 {
		t.Errorf("%v allocations for a message", n)
	}
}
