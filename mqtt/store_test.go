package mqtt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

var errStore = errors.New("the store is out of order")

func openBroker(t *testing.T, cfg mqtt.Config) *mqtt.Broker {
	t.Helper()
	b := newBroker(t, cfg)
	if err := b.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReopen checks that another process finds what was committed.
func TestReopen(t *testing.T) {
	store := newMemory()
	b := openBroker(t, mqtt.Config{Store: store})
	c := connectAs(t, b, user{name: "anna"}, "c", persistent, func(p *packet.Connect) { p.ReceiveMaximum = 2 })
	other, clean := connect(t, b, "other"), connect(t, b, "clean")
	clean.subscribe("a")
	c.send(packet.AppendSubscribe(nil, c.version, 1, 7, packet.Filter{Topic: []byte("a"), QoS: 2, NoLocal: true, RetainAsPublished: true}))
	c.send(packet.AppendSubscribe(nil, c.version, 2, 0, packet.Filter{Topic: []byte("b"), QoS: 2}))
	c.send(packet.AppendUnsubscribe(nil, c.version, 3, []byte("b")))
	props := []byte{0x26, 0, 1, 'k', 0, 1, 'v'} // a user property
	for i := range 3 {
		other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: uint16(i + 1), Payload: fmt.Append(nil, i), Properties: props, Retain: i == 2, HasExpiry: true, Expiry: 1000})
	}
	other.publish("a", "not stored")
	other.retain("r", "1")
	other.retain("s", "1")
	other.retain("s", "")
	if err := b.Publish("r/own", []byte("1"), true); err != nil {
		t.Fatal(err)
	}
	c.send(packet.AppendAck(nil, c.version, packet.TypePubrel, 9, packet.Success))
	c.publishOut(packet.Out{Topic: "x", QoS: 2, ID: 9})
	c.wants("a=0 q1 #1 expiry1000 s7", "a=1 q1 #2 expiry1000 s7", "a=not stored s7") // but no answer
	other.wants()
	b.Commit(t.Context())
	if c.wire.wakes.Load() == 0 || other.wire.wakes.Load() == 0 {
		t.Error("the commit did not wake the connections")
	}
	c.wants("SUBACK #1 0x02", "SUBACK #2 0x02", "UNSUBACK #3 0x00", "PUBCOMP #9 0x92", "PUBREC #9 0x10")
	other.wants("PUBACK #1 0x00", "PUBACK #2 0x00", "PUBACK #3 0x00")
	b.Commit(t.Context())

	b = openBroker(t, mqtt.Config{Store: store})
	if st := b.Stats(); st.Sessions != 1 || st.Subscriptions != 1 || st.Retained != 2 || st.HeldBytes == 0 {
		t.Errorf("Stats = %+v", st)
	}
	if got := b.Retained("#"); len(got) != 2 || string(got["r"]) != "1" || string(got["a"]) != "2" {
		t.Errorf("Retained = %q", got)
	}
	c = connectAs(t, b, user{name: "anna"}, "c", persistent)
	c.wants("a=0 q1 #1 dup expiry1000 s7", "a=1 q1 #2 dup expiry1000 s7", "a=2 q1 #3 retain expiry1000 s7", "a=2 q1 #4 retain expiry1000 s7") // once as retained
	c.publishOut(packet.Out{Topic: "a", QoS: 2, ID: 9})                                                                                       // it was known
	c.publish("a", "own")
	b.Commit(t.Context())
	c.wants("PUBREC #9 0x00")
	other = connect(t, b, "other", v3)
	other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 1})
	c.wants("a= q1 #5 s7")
	c.disconnect()
	connectAs(t, b, user{name: "anna"}, "c")
	b.Commit(t.Context())
	if got := store.kinds(); len(got) != 1 || got[mqtt.KindRetained] != 2 {
		t.Errorf("the store has %v records", got)
	}
}

// TestExpiryChanges checks that a session is stored from when it is to be kept until it is not.
func TestExpiryChanges(t *testing.T) {
	store := newMemory()
	b := openBroker(t, mqtt.Config{Store: store})
	expiry := func(seconds uint32) func(*packet.Connect) {
		return func(p *packet.Connect) { p.Clean, p.SessionExpiry = false, seconds }
	}
	c, other := connect(t, b, "c", expiry(100)), connect(t, b, "other")
	c.send(packet.AppendSubscribe(nil, c.version, 1, 0, packet.Filter{Topic: []byte("a"), QoS: 2}))
	c.publishOut(packet.Out{Topic: "x", QoS: 2, ID: 9})
	for i := range uint16(2) {
		other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: i + 1})
	}
	for _, step := range []struct {
		seconds uint32
		records int
	}{{50, 7}, {0, 0}, {100, 1}} {
		c = connect(t, b, "c", expiry(step.seconds))
		b.Commit(t.Context())
		n := 0
		for _, k := range store.kinds() {
			n += k
		}
		if n != step.records {
			t.Errorf("with %d seconds there are %v records, want %d", step.seconds, store.kinds(), step.records)
		}
	}
	none := uint32(0)
	c.conn.Close(mqtt.Ending{SessionExpiry: &none}, c.now)
	b.Commit(t.Context())
	if got := store.kinds(); len(got) != 0 {
		t.Errorf("the store has %v records, want none", got)
	}
}

// TestStoredShare checks that what a member of a group has not acknowledged goes to another one
// although the process was killed between.
func TestStoredShare(t *testing.T) {
	store := newMemory()
	b := openBroker(t, mqtt.Config{Store: store})
	other := connect(t, b, "other")
	c := connect(t, b, "c", persistent)
	c.send(packet.AppendSubscribe(nil, c.version, 1, 0, packet.Filter{Topic: []byte("$share/g/a"), QoS: 1}))
	other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 1, Payload: []byte("x")})
	b.Commit(t.Context())
	b = openBroker(t, mqtt.Config{Store: store})
	second := connect(t, b, "second")
	second.subscribe("$share/g/a")
	connect(t, b, "c") // clean
	second.wants("a=x q1 #1")
	b.Commit(t.Context())
	if got := store.kinds(); len(got) != 0 {
		t.Errorf("the store has %v records, want none", got)
	}
}

func TestSessionExpiresAfterReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		b := openBroker(t, mqtt.Config{Store: store})
		connected := connect(t, b, "connected", persistent)
		connected.send(packet.AppendSubscribe(nil, packet.V5, 1, 0, packet.Filter{Topic: []byte("a"), QoS: 1}))
		connect(t, b, "away", persistent).drop()
		b.Commit(t.Context())
		time.Sleep(40 * time.Minute)
		b = openBroker(t, mqtt.Config{Store: store})
		run(t, b)
		for _, step := range []struct {
			wait     time.Duration
			sessions int
		}{{20*time.Minute - 1, 2}, {1, 1}, {40*time.Minute - 1, 1}, {1, 0}} {
			time.Sleep(step.wait)
			synctest.Wait()
			if got := b.Stats().Sessions; got != step.sessions {
				t.Fatalf("there are %d sessions, want %d", got, step.sessions)
			}
		}
		if got := store.kinds(); len(got) != 0 {
			t.Errorf("the store has %v records, want none", got)
		}
	})
}

// TestCommitFails checks that nothing is acknowledged while the store fails, and all once it works.
func TestCommitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		var log bytes.Buffer
		b := openBroker(t, mqtt.Config{Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		store.fail(errStore)
		c, other := connect(t, b, "c", persistent), connect(t, b, "other", v3)
		c.send(packet.AppendSubscribe(nil, c.version, 1, 0, packet.Filter{Topic: []byte("a"), QoS: 2}))
		time.Sleep(time.Minute)
		for qos := uint8(1); qos <= 2; qos++ {
			other.publishOut(packet.Out{Topic: "a", QoS: qos, ID: 1, Payload: []byte("x")})
		}
		other.publishOut(packet.Out{Topic: "none", QoS: 1, ID: 2})
		time.Sleep(time.Minute)
		c.wants("a=x q1 #1")
		other.wants()
		store.fail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		c.wants("SUBACK #1 0x02", "a=x q2 #2")
		other.wants("PUBACK #1 0x00", "PUBREC #1 0x00", "PUBACK #2 0x00")
		if n := strings.Count(log.String(), "out of order"); n < 100 || n > 200 {
			t.Errorf("the log says %d times that the store fails, want once a second", n)
		}
		// What waits when the program ends is committed, if that can be done within seconds.
		store.fail(errStore)
		other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 3, Payload: []byte("y")})
		time.Sleep(time.Minute)
		cancel()
		time.Sleep(time.Second)
		store.fail(nil)
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if got := store.kinds()[mqtt.KindEntry]; got != 3 {
			t.Errorf("%d entries are stored, want 3", got)
		}
		store.fail(errStore)
		if err := newBroker(t, mqtt.Config{Store: store}).Open(t.Context()); !errors.Is(err, errStore) {
			t.Errorf("Open = %v", err)
		}
	})
}

// TestManyAnswers checks that a client cannot have the broker remember any number of answers.
func TestManyAnswers(t *testing.T) {
	b := openBroker(t, mqtt.Config{Store: newMemory()})
	c := connect(t, b, "c", persistent)
	input := packet.AppendAck(nil, c.version, packet.TypePubrel, 1, packet.Success)
	for range 16 << 10 {
		c.send(input)
	}
	c.fails(input, packet.QuotaExceeded)
	b.Commit(t.Context())
	for i := range 16 << 10 {
		if got := c.next(); got != "PUBCOMP #1 0x92" {
			t.Fatalf("answer %d is %q", i, got)
		}
	}
	c.send(input)
}

func TestJournalFull(t *testing.T) {
	b := openBroker(t, mqtt.Config{Store: newMemory()})
	c, old := connect(t, b, "c", persistent), connect(t, b, "old", v3)
	c.send(packet.AppendSubscribe(nil, c.version, 1, 0, packet.Filter{Topic: []byte("a"), QoS: 2}))
	c.publishOut(packet.Out{Topic: "b", QoS: 2, ID: 1})
	b.FillJournal(true)
	for _, v := range []*client{c, old} {
		v.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 2, Payload: []byte("x")})
		v.publishOut(packet.Out{Topic: "a", QoS: 2, ID: 3, Payload: []byte("x")})
		v.publish("a", "QoS 0")
	}
	c.publishOut(packet.Out{Topic: "b", QoS: 2, ID: 1}) // it was taken before
	b.FillJournal(false)
	b.Commit(t.Context())
	c.wants("SUBACK #1 0x02", "PUBREC #1 0x10", "PUBACK #2 0x97", "PUBREC #3 0x97", "PUBREC #1 0x00", "a=QoS 0", "a=QoS 0")
	old.wants()
	old.publishOut(packet.Out{Topic: "a", QoS: 2, ID: 3, Payload: []byte("again"), Dup: true})
	b.Commit(t.Context())
	c.wants("a=again q2 #1")
}

// TestDamagedRecords checks that a broker opens although records are damaged or belong to nothing,
// and cleans up.
func TestDamagedRecords(t *testing.T) {
	store := newMemory()
	b := openBroker(t, mqtt.Config{Store: store})
	c, other := connect(t, b, "c", persistent), connect(t, b, "other")
	c.send(packet.AppendSubscribe(nil, c.version, 1, 0, packet.Filter{Topic: []byte("a"), QoS: 2}))
	other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 1, Payload: []byte("x"), Retain: true})
	c.publishOut(packet.Out{Topic: "x", QoS: 2, ID: 9})
	connect(t, b, "w", persistent, withWill(10)).drop()
	b.Commit(t.Context())
	whole := store.kinds()
	if len(whole) != 7 {
		t.Fatalf("there are %v records, want one of each kind", whole)
	}
	for _, r := range store.sorted() {
		for n := range len(r.Value) {
			reopenWith(t, store, mqtt.Change{Kind: r.Kind, Key: r.Key, Value: r.Value[:n]}, r)
		}
		for n := range len(r.Key) {
			reopenWith(t, store, mqtt.Change{Kind: r.Kind, Key: r.Key[:n], Value: r.Value}, r)
		}
	}
	reopenWith(t, store, mqtt.Change{Kind: 77, Key: []byte("x"), Value: []byte("x")}, mqtt.Change{})
}

// reopenWith opens a broker on a store in which one record stands in place of another, and sees to
// it that nothing breaks.
func reopenWith(t *testing.T, store *memory, damaged, whole mqtt.Change) {
	t.Helper()
	copied := store.without(whole)
	if err := copied.Commit(t.Context(), []mqtt.Change{damaged}); err != nil {
		t.Fatal(err)
	}
	b := openBroker(t, mqtt.Config{Store: copied, Logger: slog.New(slog.DiscardHandler)})
	c := connect(t, b, "c", persistent)
	c.pump()
	c.disconnect()
	b.Commit(t.Context())
	connect(t, b, "c")
	connect(t, b, "w")
	b.Commit(t.Context())
	got := copied.kinds()
	delete(got, damaged.Kind)
	delete(got, mqtt.KindRetained)
	delete(got, 77)
	if len(got) != 0 {
		t.Errorf("with the record %v in place of %v there are %v records left", damaged, whole, got)
	}
}

// TestStoredRetained checks that a subscriber gets the retained messages although the process was
// killed before it had all, and no more once it has.
func TestStoredRetained(t *testing.T) {
	store := newMemory()
	b := openBroker(t, mqtt.Config{Store: store})
	other := connect(t, b, "other")
	for i := range 40 {
		other.publishOut(packet.Out{Topic: fmt.Sprintf("r/%02d", i), QoS: 1, ID: uint16(i + 1), Payload: []byte("x"), Retain: true})
	}
	c := connect(t, b, "c", persistent)
	for i, f := range []packet.Filter{{Topic: []byte("r/+")}, {Topic: []byte("r/#"), QoS: 1}, {Topic: []byte("r/0"), QoS: 1, RetainHandling: 2}} {
		c.send(packet.AppendSubscribe(nil, c.version, uint16(i+1), 0, f))
	}
	b.Commit(t.Context()) // but nothing was sent yet
	for _, want := range []int{80, 0} {
		b = openBroker(t, mqtt.Config{Store: store})
		c = connect(t, b, "c", persistent)
		got := 0
		for p := c.next(); p != ""; p = c.next() {
			if got++; !strings.Contains(p, "retain") {
				t.Errorf("the client got %q", p)
			}
			if _, id, ok := strings.Cut(p, "#"); ok {
				n, _ := strconv.Atoi(strings.TrimSuffix(id, " retain"))
				c.ackFor(packet.TypePuback, uint16(n))
			}
		}
		if b.Commit(t.Context()); got != want {
			t.Errorf("the client got %d messages, want %d", got, want)
		}
	}
}
