package mqtt_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// withWill returns a will with a delay in seconds.
func withWill(delay uint32) func(*packet.Connect) {
	return func(p *packet.Connect) {
		p.HasWill = true
		p.Will = packet.Will{Topic: []byte("will/" + string(p.ClientID)), Payload: []byte("gone"), QoS: 1, Delay: delay}
	}
}

func TestWill(t *testing.T) {
	tests := []struct {
		name   string
		change []func(*packet.Connect)
		end    func(*client)
		want   []string
	}{
		{"dropped", nil, (*client).drop, []string{"will/c=gone q1 #1"}},
		{"disconnected", nil, (*client).disconnect, nil},
		{"twice", nil, func(c *client) { c.drop(); c.drop() }, []string{"will/c=gone q1 #1"}},
		{"shutdown", nil, func(c *client) { c.conn.Close(mqtt.Ending{Shutdown: true}, c.now) }, nil},
		{"session kept", []func(*packet.Connect){persistent}, (*client).drop, []string{"will/c=gone q1 #1"}},
		{"delayed, but the session ends", []func(*packet.Connect){withWill(10)}, (*client).drop, []string{"will/c=gone q1 #1"}},
		{"delayed", []func(*packet.Connect){persistent, withWill(10)}, (*client).drop, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBroker(t, mqtt.Config{})
			watcher := connect(t, b, "watcher")
			watcher.subscribe("will/#")
			c := connect(t, b, "c", append([]func(*packet.Connect){withWill(0)}, tt.change...)...)
			if !c.conn.HasWill() || watcher.conn.HasWill() {
				t.Error("HasWill is wrong")
			}
			tt.end(c)
			watcher.wants(tt.want...)
		})
	}
}

func TestWillRefused(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	for id, want := range map[string]packet.Code{"secret": packet.NotAuthorized, "/////////////////////////////////////////////////////////////////": packet.InvalidTopic} {
		c, err := tryConnect(t, b, user{publish: []string{"will/secret"}}, id, withWill(0))
		if e, ok := errors.AsType[*packet.Error](err); !ok || e.Code != want || c.ack.Code != want {
			t.Errorf("Connect = %+v, %v, want %v", c.ack, err, want)
		}
	}
}

// run runs a broker until the test ends.
func run(t *testing.T, b *mqtt.Broker) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

func TestDelayedWill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, mqtt.Config{})
		run(t, b)
		watcher := connect(t, b, "watcher")
		watcher.subscribe("will/#")
		wait := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			watcher.wants(want...)
		}
		connect(t, b, "c", persistent, withWill(10)).drop()
		wait(9 * time.Second)
		c := connect(t, b, "c", persistent, withWill(10)) // it is back in time
		wait(time.Minute)
		c.now = time.Now()
		c.drop()
		wait(10*time.Second - 1)
		wait(1, "will/c=gone q1 #1")
		connect(t, b, "c", persistent, withWill(10)).drop()
		connect(t, b, "c").disconnect() // the session ends
		wait(0, "will/c=gone q1 #2")
		// The session ends before the delay is over.
		connect(t, b, "c", persistent, withWill(7200)).drop()
		wait(time.Hour, "will/c=gone q1 #3")
		if got := b.Stats().Sessions; got != 1 {
			t.Errorf("there are %d sessions, want 1", got)
		}
	})
}

func TestSessionExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, mqtt.Config{SessionExpiry: time.Hour})
		run(t, b)
		never := connect(t, b, "never", func(p *packet.Connect) { p.SessionExpiry = 1<<32 - 1 })
		if !never.ack.HasSessionExpiry || never.ack.SessionExpiry != 3600 {
			t.Errorf("CONNACK = %+v", never.ack)
		}
		old := connect(t, b, "old", v3, func(p *packet.Connect) { p.Clean = false })
		short := connect(t, b, "short", func(p *packet.Connect) { p.SessionExpiry = 60 })
		if short.ack.HasSessionExpiry {
			t.Errorf("CONNACK = %+v", short.ack)
		}
		changed := connect(t, b, "changed", persistent)
		for _, c := range []*client{never, old, short, changed} {
			c.subscribe("a")
		}
		seconds := uint32(30)
		changed.conn.Close(mqtt.Ending{SessionExpiry: &seconds}, changed.now)
		never.drop()
		old.drop()
		short.drop()
		for _, step := range []struct {
			wait     time.Duration
			sessions int
		}{{30*time.Second - 1, 4}, {1, 3}, {30 * time.Second, 2}, {59*time.Minute - 1, 2}, {1, 0}} {
			time.Sleep(step.wait)
			synctest.Wait()
			if st := b.Stats(); st.Sessions != step.sessions || st.Subscriptions != step.sessions {
				t.Fatalf("Stats = %+v, want %d sessions", st, step.sessions)
			}
		}
	})
}

func TestRetainedExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, mqtt.Config{})
		run(t, b)
		c := connect(t, b, "c")
		c.retainFor("a", 5)
		c.retain("b", "x")
		time.Sleep(6 * time.Second)
		if got := b.Retained("#"); len(got) != 1 || string(got["b"]) != "x" {
			t.Errorf("Retained = %q", got)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := b.Stats().Retained; got != 1 {
			t.Errorf("%d are kept, want 1", got)
		}
	})
}

func TestTakeover(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	watcher := connect(t, b, "watcher")
	watcher.subscribe("will/#")
	first := connect(t, b, "c", persistent, withWill(0))
	first.subscribe("a")
	second := connect(t, b, "c", persistent, withWill(10))
	watcher.wants("will/c=gone q1 #1")
	if got := packet.Code(first.wire.closed.Load()); got != packet.SessionTakenOver {
		t.Errorf("the first was closed with %v", got)
	}
	if !second.ack.SessionPresent {
		t.Error("the session was not resumed")
	}
	for _, input := range [][]byte{
		packet.AppendSubscribe(nil, packet.V5, 1, 0, packet.Filter{Topic: []byte("b")}),
		packet.AppendUnsubscribe(nil, packet.V5, 1, []byte("a")),
		(&packet.Out{Topic: "x", QoS: 1, ID: 1}).Append(nil, packet.V5),
		packet.AppendAck(nil, packet.V5, packet.TypePuback, 1, packet.Success),
	} {
		first.fails(input, packet.SessionTakenOver)
	}
	first.drop()
	watcher.wants()
	watcher.publish("a", "x")
	first.wants()
	second.wants("a=x")
	third := connect(t, b, "c", persistent) // the will is delayed, and the session goes on
	watcher.wants()
	connect(t, b, "c") // clean
	if third.wire.closed.Load() == 0 {
		t.Error("the third was not closed")
	}
	if st := b.Stats(); st.Sessions != 2 || st.Connected != 2 || st.TakenOver != 3 {
		t.Errorf("Stats = %+v", st)
	}
}

func TestAnotherUser(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c := connectAs(t, b, user{name: "anna"}, "c", persistent)
	c.subscribe("a")
	check := func(name string, want packet.Code) {
		t.Helper()
		err := b.Check(&packet.Connect{Version: packet.V5}, "c", user{name: name})
		if e, ok := errors.AsType[*packet.Error](err); ok != (want != packet.Success) || ok && e.Code != want {
			t.Errorf("Check of %s = %v, want %v", name, err, want)
		}
	}
	check("anna", packet.Success)
	check("ben", packet.NotAuthorized)
	other, err := tryConnect(t, b, user{name: "ben"}, "c")
	if err == nil || other.ack.Code != packet.NotAuthorized || c.wire.closed.Load() != 0 {
		t.Errorf("Connect = %+v, %v", other.ack, err)
	}
	c.drop()
	check("ben", packet.Success)
	other = connectAs(t, b, user{name: "ben"}, "c", persistent)
	if st := b.Stats(); other.ack.SessionPresent || st.Sessions != 1 || st.Subscriptions != 0 {
		t.Errorf("the other user's CONNACK = %+v, and Stats = %+v", other.ack, st)
	}
}

func TestCheck(t *testing.T) {
	b := newBroker(t, mqtt.Config{MaxPacket: 2000})
	p := packet.Connect{Version: packet.V311}
	if err := b.Check(&p, "c", user{}); err == nil {
		t.Error("Check accepted a client without an identifier whose session is to be kept")
	}
	p.ClientID = []byte("c")
	if err := b.Check(&p, "c", user{}); err != nil {
		t.Errorf("Check = %v", err)
	}
	if got := b.MaxPacket(); got != 2000 {
		t.Errorf("MaxPacket = %d, want 2000", got)
	}
	for _, expiry := range []uint32{0, 60} {
		c := connect(t, b, "c", func(p *packet.Connect) { p.SessionExpiry = expiry })
		if !c.conn.MayExtend(0) || c.conn.MayExtend(100) != (expiry > 0) {
			t.Errorf("MayExtend is wrong after an expiry of %d", expiry)
		}
	}
}

// TestResumeWithLess checks that a session loses the subscriptions that its client may not have any
// more.
func TestResumeWithLess(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c := connect(t, b, "c", persistent)
	c.subscribe("a", "b")
	c.drop()
	c = connectAs(t, b, user{subscribe: []string{"a"}}, "c", persistent)
	c.publish("a", "x")
	c.publish("b", "x")
	c.wants("b=x")
}

// TestTakeoverOfShort checks that a session that was to end with its connection is not resumed by the one that ends that.
func TestTakeoverOfShort(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	watcher := connect(t, b, "watcher")
	watcher.subscribe("will/#")
	connect(t, b, "c", withWill(10)).subscribe("a")
	c := connect(t, b, "c", persistent)
	watcher.wants("will/c=gone q1 #1")
	watcher.publish("a", "x")
	if c.wants(); c.ack.SessionPresent {
		t.Error("the session was resumed")
	}
}

func TestConnack(t *testing.T) {
	b := newBroker(t, mqtt.Config{TopicAliases: -1})
	c, err := tryConnect(t, b, user{}, "made-up", func(p *packet.Connect) { p.ClientID = nil })
	if err != nil {
		t.Fatal(err)
	}
	if want := (packet.Connack{ReceiveMaximum: 64, MaximumPacketSize: 256 << 10, AssignedClientID: "made-up"}); c.ack != want {
		t.Errorf("CONNACK = %+v, want %+v", c.ack, want)
	}
	c.fails((&packet.Out{Topic: "a", Alias: 1}).Append(nil, packet.V5), packet.InvalidAlias)
	if old := connect(t, b, "old", v3); old.ack != (packet.Connack{}) {
		t.Errorf("CONNACK = %+v", old.ack)
	}
	c, err = tryConnect(t, b, user{}, "made-up", v3, func(p *packet.Connect) { p.ClientID, p.Clean = nil, false })
	if err == nil || c.ack.Code != packet.InvalidClientID {
		t.Errorf("Connect = %+v, %v", c.ack, err)
	}
}

func TestMaxSessions(t *testing.T) {
	b := newBroker(t, mqtt.Config{MaxSessions: 1})
	for _, id := range []string{"1", "2"} {
		connect(t, b, id, persistent).drop()
	}
	if st := b.Stats(); st.Sessions != 1 || st.SessionsRefused != 1 {
		t.Errorf("Stats = %+v", st)
	}
	if !connect(t, b, "1", persistent).ack.SessionPresent {
		t.Error("the first session is gone")
	}
}

func TestWrongPacket(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c := connect(t, b, "c")
	c.fails(packet.AppendPingresp(nil), packet.ProtocolError)
}

func TestConfig(t *testing.T) {
	for _, cfg := range []mqtt.Config{{MaxPacket: 1}, {MaxQueue: 70_000}, {Reserved: "a/#"}, {SessionExpiry: 1}} {
		if _, err := mqtt.New(cfg); err == nil {
			t.Errorf("New(%+v) returned no error", cfg)
		}
	}
	b := newBroker(t, mqtt.Config{})
	for _, topic := range []string{"", "a/+", "a\x00"} {
		if err := b.Publish(topic, nil, false); !errors.Is(err, mqtt.ErrTopic) {
			t.Errorf("Publish(%q) = %v", topic, err)
		}
	}
	if got := b.Retained("a/#/b"); got != nil {
		t.Errorf("Retained = %q", got)
	}
}
