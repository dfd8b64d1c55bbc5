package mqtt_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// TestCrash has clients publish and receive, lose their connections, the store fail, and the broker
// be killed, at random. In the end each receiver has each message, and a group of receivers has it
// together: with QoS 2 once, in the order of those with QoS 2.
func TestCrash(t *testing.T) {
	seeds := uint64(60)
	if testenv.Checks() {
		seeds = 200
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 300 {
				w.step()
			}
			w.settle()
			w.check()
		})
	}
}

// world is a broker that is killed now and then, and its clients, which remember what MQTT asks of
// them.
type world struct {
	t        *testing.T
	random   *rand.Rand
	store    *memory
	broker   *mqtt.Broker
	sender   *device
	readers  []*device // the last two are a group
	messages int
}

// device is a client with its own memory.
type device struct {
	*client

	id       string
	version  packet.Version
	unacked  []packet.Out      // what it has published, in order; Dup: PUBREC has come
	nextID   uint16            //
	received map[uint16]string // with QoS 2, not released
	got      []string
	held     []uint16 // that it will acknowledge later
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 3)), store: newMemory()}
	w.open()
	w.sender = &device{id: "sender", version: packet.V5, received: make(map[uint16]string)}
	for i, v := range []packet.Version{packet.V311, packet.V5, packet.V311, packet.V5} {
		w.readers = append(w.readers, &device{id: fmt.Sprint("reader", i), version: v, received: make(map[uint16]string)})
	}
	for _, d := range w.all() {
		w.connect(d)
	}
	for i, d := range w.readers {
		filter := packet.Filter{Topic: []byte("m/#"), QoS: 2}
		if i >= 2 {
			filter.Topic = []byte("$share/g/m/#")
		}
		d.send(packet.AppendSubscribe(nil, d.version, 1, 0, filter))
		d.wants() // not committed
		w.broker.Commit(t.Context())
		d.wants("SUBACK #1 0x02")
	}
	return w
}

func (w *world) all() []*device { return append(slices.Clone(w.readers), w.sender) }

// open begins the life of a broker.
func (w *world) open() {
	w.t.Helper()
	w.broker = newBroker(w.t, mqtt.Config{Store: w.store, MaxInflight: 1 + w.random.IntN(5), Logger: slog.New(slog.DiscardHandler)})
	if err := w.broker.Open(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// connect connects a device, which sends again what was not acknowledged.
func (w *world) connect(d *device) {
	w.t.Helper()
	d.client = connect(w.t, w.broker, d.id, persistent, func(p *packet.Connect) { p.Version = d.version })
	d.held = nil
	for _, o := range d.unacked {
		if o.Dup {
			d.ackFor(packet.TypePubrel, o.ID)
			continue
		}
		o.Dup = true
		d.publishOut(o)
	}
}

func (w *world) step() {
	devices := w.all()
	d := devices[w.random.IntN(len(devices))]
	switch w.random.IntN(20) {
	case 0:
		if w.random.IntN(2) == 0 { // else the session is taken over
			d.drop()
		}
		w.connect(d)
	case 1: // the broker is killed
		w.open()
		for _, d := range devices {
			w.connect(d)
		}
	case 2, 3, 4:
		w.broker.Commit(w.t.Context())
	case 5:
		w.failToCommit()
	case 6, 7, 8, 9:
		if len(w.sender.unacked) < 10 {
			w.publish()
		}
	default:
		w.read(d, 1+w.random.IntN(200))
	}
	if got, want := w.broker.Stats().HeldBytes, w.broker.Held(); got != want {
		w.t.Fatalf("%d bytes are counted, want %d", got, want)
	}
}

// failToCommit has the store fail once, after it has kept the changes or not.
func (w *world) failToCommit() {
	ctx, cancel := context.WithCancel(w.t.Context())
	cancel() // it is not tried again
	w.store.err, w.store.lies = errStore, w.random.IntN(2) == 0
	w.broker.Commit(ctx)
	w.store.err = nil
}

func (w *world) publish() {
	d := w.sender
	d.nextID++
	w.messages++
	o := packet.Out{Topic: "m/x", Payload: strconv.AppendInt(nil, int64(w.messages), 10), QoS: uint8(1 + w.random.IntN(2)), ID: d.nextID}
	d.unacked = append(d.unacked, o)
	d.publishOut(o)
}

// read has a device take what it gets, and acknowledge some of it.
func (w *world) read(d *device, room int) (more bool) {
	w.t.Helper()
	d.in, _ = d.conn.Pump(d.in, room, d.now)
	input := d.in
	d.in = nil
	for len(input) > 0 {
		h, body, n, err := packet.Split(d.version, input, 1000)
		if err != nil || n == 0 {
			w.t.Fatalf("Split = %d, %v", n, err)
		}
		input, more = input[n:], true
		w.packet(d, h, body)
	}
	for len(d.held) > 0 && w.random.IntN(3) > 0 {
		d.ackFor(packet.TypePuback, d.held[0])
		d.held = d.held[1:]
		more = true
	}
	return more
}

func (w *world) packet(d *device, h packet.Header, body []byte) {
	w.t.Helper()
	if h.Type == packet.TypePublish {
		var p packet.Publish
		if err := p.DecodeFromServer(d.version, h, body); err != nil {
			w.t.Fatal(err)
		}
		d.message(&p)
		return
	}
	var p packet.Ack
	if err := p.Decode(d.version, h, body); err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(d.unacked, func(o packet.Out) bool { return o.ID == p.ID })
	switch h.Type {
	case packet.TypePubrel:
		delete(d.received, p.ID)
		d.ackFor(packet.TypePubcomp, p.ID)
	case packet.TypePuback, packet.TypePubcomp:
		d.unacked = slices.Delete(d.unacked, i, i+1)
	case packet.TypePubrec:
		if p.Code >= packet.UnspecifiedError {
			w.t.Fatalf("PUBREC says %v", p.Code)
		}
		d.unacked[i].Dup = true
		d.ackFor(packet.TypePubrel, p.ID)
	default:
		w.t.Fatalf("the device got a %v", h.Type)
	}
}

// message takes a message.
func (d *device) message(p *packet.Publish) {
	payload := string(p.Payload)
	if p.QoS == 1 {
		d.got = append(d.got, "1:"+payload)
		d.held = append(d.held, p.ID)
		return
	}
	if _, again := d.received[p.ID]; !again {
		d.got = append(d.got, "2:"+payload)
		d.received[p.ID] = payload
	}
	d.ackFor(packet.TypePubrec, p.ID)
}

// settle goes on until nothing happens any more.
func (w *world) settle() {
	for quiet := 0; quiet < 20; quiet++ {
		w.broker.Commit(w.t.Context())
		for _, d := range w.all() {
			if w.read(d, 10_000) {
				quiet = 0
			}
		}
	}
	w.broker.Commit(w.t.Context())
}

func (w *world) check() {
	w.t.Helper()
	if len(w.sender.unacked) > 0 {
		w.t.Errorf("not acknowledged: %v", w.sender.unacked)
	}
	for _, d := range w.readers {
		last := 0
		for _, s := range d.got {
			if n, _ := strconv.Atoi(s[2:]); s[0] == '2' {
				if n < last {
					w.t.Errorf("%s got %d after %d", d.id, n, last)
				}
				last = n
			}
		}
	}
	w.checkAll(w.readers[0].got)
	w.checkAll(w.readers[1].got)
	w.checkAll(slices.Concat(w.readers[2].got, w.readers[3].got))
	if got := w.store.kinds(); got[mqtt.KindEntry] != 0 || got[mqtt.KindMessage] != 0 || got[mqtt.KindReceived] != 0 ||
		got[mqtt.KindSession] != 5 || got[mqtt.KindSubscription] != 4 {
		w.t.Errorf("the store has %v records", got)
	}
}

// checkAll checks that got has all messages, those with QoS 2 once.
func (w *world) checkAll(got []string) {
	w.t.Helper()
	times := make(map[string]int)
	for _, s := range got {
		times[s[2:]]++
		if s[0] == '2' && times[s[2:]] > 1 {
			w.t.Errorf("%s came %d times", s, times[s[2:]])
		}
	}
	if len(times) != w.messages {
		w.t.Errorf("%d messages came, want %d", len(times), w.messages)
	}
}
