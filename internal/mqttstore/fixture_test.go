package mqttstore_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// anybody is a grant that denies nothing.
type anybody struct{}

func (anybody) User() string             { return "" }
func (anybody) MayPublish(string) bool   { return true }
func (anybody) MaySubscribe(string) bool { return true }
func (anybody) Valid() bool              { return true }

// wire has room for one wake.
type wire chan struct{}

func (w wire) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

func (w wire) Close(packet.Code) {}

// mortal is a store of a process that may be killed: from then on nothing is written.
type mortal struct {
	mqtt.Store

	dead atomic.Bool
}

func (m *mortal) Commit(ctx context.Context, changes []mqtt.Change) error {
	if m.dead.Load() {
		return nil // which nobody hears
	}
	return m.Store.Commit(ctx, changes)
}

// life is a broker that runs.
type life struct {
	*mqtt.Broker

	store *mortal
	end   func() // commits what is left
}

func begin(tb testing.TB, s mqtt.Store, cfg mqtt.Config) *life {
	tb.Helper()
	l := &life{store: &mortal{Store: s}}
	cfg.Store, cfg.Logger = l.store, slog.New(slog.DiscardHandler)
	b, err := mqtt.New(cfg)
	if err == nil {
		err = b.Open(tb.Context())
	}
	if err != nil {
		tb.Fatal(err)
	}
	l.Broker = b
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	l.end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	tb.Cleanup(l.end)
	return l
}

// kill ends the life at an instant: a commit that is under way may or may not be made.
func (l *life) kill() {
	l.store.dead.Store(true)
	l.end()
}

// test is a [testing.TB], or what ends a program.
type test interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// device is a client with its own memory, which outlives the broker. It speaks MQTT 5, and its
// session is kept.
type device struct {
	tb       test
	id       string
	conn     *mqtt.Conn
	wire     wire
	nextID   uint16
	unacked  []packet.Out        // what it has published, in order; Dup: PUBREC has come
	received map[uint16]struct{} // with QoS 2, not released
	held     []uint16            // that it will acknowledge later
	got      []string            // QoS and payload
	acked    func(payload string)
}

func newDevice(tb test, id string) *device {
	tb.Helper()
	return &device{tb: tb, id: id, received: make(map[uint16]struct{}), acked: func(string) {}}
}

// connect connects the device, which sends again what was not acknowledged.
func (d *device) connect(b *mqtt.Broker) {
	d.tb.Helper()
	d.wire, d.held = make(wire, 1), nil
	p := packet.Connect{Version: packet.V5, ClientID: []byte(d.id), ReceiveMaximum: 65_535, SessionExpiry: 3600}
	var err error
	if d.conn, _, err = b.Connect(&p, d.id, anybody{}, d.wire, time.Now()); err != nil {
		d.tb.Fatal(err)
	}
	for _, o := range slices.Clone(d.unacked) { // answers take some out
		if o.Dup {
			d.ack(packet.TypePubrel, o.ID)
		} else {
			d.handle(o.Append(nil, packet.V5))
		}
	}
}

func (d *device) drop() { d.conn.Close(mqtt.Ending{}, time.Now()) }

// handle hands a packet to the broker, and takes the answer.
func (d *device) handle(input []byte) {
	d.tb.Helper()
	h, body, _, err := packet.Split(packet.V5, input, packet.MaxSize)
	if err != nil {
		d.tb.Fatal(err)
	}
	answer, err := d.conn.Handle(nil, h, body, time.Now())
	if err != nil {
		d.tb.Fatal(err)
	}
	d.take(answer)
}

func (d *device) ack(t packet.Type, id uint16) {
	d.tb.Helper()
	d.handle(packet.AppendAck(nil, packet.V5, t, id, packet.Success))
}

func (d *device) subscribe(filter string) {
	d.tb.Helper()
	d.handle(packet.AppendSubscribe(nil, packet.V5, 1, 0, packet.Filter{Topic: []byte(filter), QoS: 2}))
}

func (d *device) publish(topic, payload string, qos uint8) {
	d.tb.Helper()
	d.nextID++
	if d.nextID == 0 {
		d.nextID = 1
	}
	o := packet.Out{Topic: topic, Payload: []byte(payload), QoS: qos, ID: d.nextID}
	d.unacked = append(d.unacked, o)
	d.handle(o.Append(nil, packet.V5))
}

// pump takes what waits for the device, and reports whether there was anything.
func (d *device) pump() bool {
	d.tb.Helper()
	out, _ := d.conn.Pump(nil, 1<<16, time.Now())
	d.take(out)
	return len(out) > 0
}

// take takes packets of the broker's.
func (d *device) take(input []byte) {
	d.tb.Helper()
	for len(input) > 0 {
		h, body, n, err := packet.Split(packet.V5, input, packet.MaxSize)
		if err != nil || n == 0 {
			d.tb.Fatalf("Split = %d, %v", n, err)
		}
		input = input[n:]
		switch h.Type {
		case packet.TypeSuback:
			d.acked("")
		case packet.TypePublish:
			d.message(h, body)
		default:
			d.answer(h, body)
		}
	}
}

func (d *device) message(h packet.Header, body []byte) {
	d.tb.Helper()
	var p packet.Publish
	if err := p.DecodeFromServer(packet.V5, h, body); err != nil {
		d.tb.Fatal(err)
	}
	if p.QoS == 1 {
		d.got = append(d.got, "1:"+string(p.Payload))
		d.held = append(d.held, p.ID)
		return
	}
	if _, again := d.received[p.ID]; !again {
		d.got = append(d.got, "2:"+string(p.Payload))
		d.received[p.ID] = struct{}{}
	}
	d.ack(packet.TypePubrec, p.ID)
}

func (d *device) answer(h packet.Header, body []byte) {
	d.tb.Helper()
	var p packet.Ack
	if err := p.Decode(packet.V5, h, body); err != nil {
		d.tb.Fatal(err)
	}
	if p.Code >= packet.UnspecifiedError && h.Type != packet.TypePubrel && h.Type != packet.TypePubcomp {
		d.tb.Fatalf("%v says %v", h.Type, p.Code)
	}
	i := slices.IndexFunc(d.unacked, func(o packet.Out) bool { return o.ID == p.ID })
	switch h.Type {
	case packet.TypePubrel:
		delete(d.received, p.ID)
		d.ack(packet.TypePubcomp, p.ID)
	case packet.TypePubrec:
		d.unacked[i].Dup = true
		d.acked(string(d.unacked[i].Payload))
		d.ack(packet.TypePubrel, p.ID)
	case packet.TypePuback:
		d.acked(string(d.unacked[i].Payload))
		d.unacked = slices.Delete(d.unacked, i, i+1)
	case packet.TypePubcomp:
		d.unacked = slices.Delete(d.unacked, i, i+1)
	default:
		d.tb.Fatalf("the device got a %v", h.Type)
	}
}

// release acknowledges up to n messages with QoS 1.
func (d *device) release(n int) {
	d.tb.Helper()
	for ; n > 0 && len(d.held) > 0; n-- {
		id := d.held[0]
		d.held = d.held[1:]
		d.ack(packet.TypePuback, id)
	}
}

// await waits until no more than n of the device's messages are not acknowledged.
func (d *device) await(n int) {
	d.tb.Helper()
	for len(d.unacked) > n {
		if !d.pump() {
			<-d.wire
		}
	}
}
