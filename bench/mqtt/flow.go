package mqtt

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/mqtt/packet"
)

const (
	payloadSize = 64
	// onTheirWay bounds the copies of messages that are sent and have not come: fewer than a broker holds for one client.
	onTheirWay = 900
	// unacknowledged is how many messages with QoS 1 a publisher sends ahead. No broker here takes fewer.
	unacknowledged = 16
	// dropped is for how long no message must come until those on their way count as lost.
	dropped = 2 * time.Second
)

// flowAbout says how messages flow.
const flowAbout = "Messages of 64 bytes, MQTT 5. A publisher sends on as soon as enough of what is on its way has come, so that the queues of the brokers " +
	"suffice. Where the generator is at 100 %, it is the limit, and the CPU time of a copy tells more than the rate."

// flowed is how a broker passed messages on.
type flowed struct {
	measured.Usage

	copies         uint64 // that came while it was measured
	lost, repeated uint64 // copies in all: that never came, and that came more than once, or too late
}

func (r flowed) rate() float64   { return float64(r.copies) / r.Elapsed.Seconds() }
func (r flowed) perCPU() float64 { return float64(r.copies) / r.CPU.Seconds() }

// flow is messages from publishers to subscribers, each to all of them.
type flow struct {
	publishers, subscribers *crowd

	message []byte // a PUBLISH, without what differs
	qos     uint8
	window  uint64 // copies that may be on their way

	turn        int
	next        []uint32 // number of the next message of a publisher
	waiting     []int    // messages of a publisher that are not acknowledged
	due         []uint32 // number of the next message that is to come, by publisher and subscriber
	sent        uint64   // copies
	came        uint64   // copies, without repeated ones
	repeated    uint64
	writtenOff  uint64    // copies that are not waited for any more
	lastArrival time.Time // of a copy that came, or when copies were written off
}

// newFlow connects publishers and subscribers.
func newFlow(ctx context.Context, at netip.AddrPort, publishers, subscribers int, qos uint8) (*flow, error) {
	const topic = "bench/flow"
	f := &flow{
		qos: qos, window: onTheirWay, next: make([]uint32, publishers), waiting: make([]int, publishers),
		due: make([]uint32, publishers*subscribers), lastArrival: time.Now(),
	}
	f.window = max(f.window, uint64(unacknowledged*subscribers))
	out := packet.Out{Topic: topic, Payload: make([]byte, payloadSize), ID: 1, QoS: qos}
	f.message = out.Append(nil, packet.V5)
	var err error
	f.subscribers, err = newCrowd(ctx, at, subscribers, kind{version: packet.V5, name: "subscriber", filter: topic, qos: qos})
	if err != nil {
		return nil, err
	}
	f.publishers, err = newCrowd(ctx, at, publishers, kind{version: packet.V5, name: "publisher"})
	if err != nil {
		f.subscribers.close()
		return nil, err
	}
	f.subscribers.handle, f.publishers.handle = f.arrived, f.acknowledged
	return f, nil
}

func (f *flow) close() {
	f.publishers.close()
	f.subscribers.close()
}

// publish sends a message of the next publisher.
func (f *flow) publish() {
	one := f.publishers.clients[f.turn]
	f.turn = (f.turn + 1) % len(f.publishers.clients)
	if f.waiting[one.index] == unacknowledged {
		return
	}
	number := f.next[one.index]
	f.next[one.index]++
	payload := f.message[len(f.message)-payloadSize:]
	binary.BigEndian.PutUint32(payload, uint32(one.index))
	binary.BigEndian.PutUint32(payload[4:], number)
	if f.qos > 0 {
		f.waiting[one.index]++
		id := f.message[len(f.message)-payloadSize-3:] // before the length of no properties
		binary.BigEndian.PutUint16(id, uint16(number%60_000+1))
	}
	f.publishers.send(one, f.message)
	f.sent += uint64(len(f.subscribers.clients))
}

func (f *flow) acknowledged(one *client, h packet.Header, _ []byte) {
	if h.Type == packet.TypePuback {
		f.waiting[one.index]--
	}
}

// arrived counts a message, and acknowledges it.
func (f *flow) arrived(one *client, h packet.Header, body []byte) {
	if h.Type != packet.TypePublish || len(body) < payloadSize {
		return
	}
	if topic := int(binary.BigEndian.Uint16(body)); f.qos > 0 {
		one.out = packet.AppendAck(one.out, packet.V5, packet.TypePuback, binary.BigEndian.Uint16(body[2+topic:]), packet.Success)
	}
	payload := body[len(body)-payloadSize:]
	publisher, number := int(binary.BigEndian.Uint32(payload)), binary.BigEndian.Uint32(payload[4:])
	due := &f.due[publisher*len(f.subscribers.clients)+one.index]
	if number < *due {
		f.repeated++
		return
	}
	*due = number + 1
	f.came++
	f.lastArrival = time.Now()
}

// onTheWay returns how many copies are expected.
func (f *flow) onTheWay() uint64 { return f.sent - f.came - f.writtenOff }

// fill publishes as much as may be on its way.
func (f *flow) fill(now time.Time) {
	if f.onTheWay() > 0 && now.Sub(f.lastArrival) > dropped {
		f.writtenOff, f.lastArrival = f.sent-f.came, now
	}
	for range len(f.publishers.clients) * unacknowledged {
		if f.onTheWay() >= f.window {
			return
		}
		f.publish()
	}
}

// run publishes for a while.
func (f *flow) run(ctx context.Context, length time.Duration) error {
	return f.subscribers.during(ctx, length, func(now time.Time) {
		f.fill(now)
		_ = f.publishers.poll(0) // its descriptor is good for as long as the other's
	})
}

// measure publishes for a while, and waits for what is on its way.
func (f *flow) measure(ctx context.Context, length time.Duration, pid int) (r flowed, err error) {
	if err := f.run(ctx, min(warmup, length)); err != nil {
		return r, err
	}
	before := f.came
	r.Usage, err = measured.During(func() error { return f.run(ctx, length) }, pid)
	r.copies = f.came - before
	for err == nil && f.sent > f.came && time.Since(f.lastArrival) < dropped {
		err = f.subscribers.poll(1)
	}
	r.lost, r.repeated = f.sent-f.came, f.repeated
	if gone := f.publishers.lost + f.subscribers.lost; gone > 0 && err == nil {
		err = fmt.Errorf("%d clients were cut off", gone)
	}
	return r, err
}

// flowRow names a broker that passes messages on.
func flowRow(broker string, qos uint8) string { return fmt.Sprintf("%s, QoS %d", broker, qos) }

// fanIn measures many publishers and a subscriber, fanOut a publisher and many subscribers.
func (b *bench) fanIn(ctx context.Context, broker string) error {
	return b.flow(ctx, broker, b.flowing, 1, b.flowedIn)
}

func (b *bench) fanOut(ctx context.Context, broker string) error {
	return b.flow(ctx, broker, 1, b.flowing, b.flowedOut)
}

func (b *bench) flow(ctx context.Context, broker string, publishers, subscribers int, results map[string][]flowed) error {
	for qos := range uint8(2) {
		p, err := measured.Start(ctx, measured.Alone, b.Name(), broker, b.Dir, relays)
		if err != nil {
			return err
		}
		r, err := b.flowOnce(ctx, p, publishers, subscribers, qos)
		p.Stop()
		if err != nil {
			return fmt.Errorf("QoS %d: %w", qos, err)
		}
		row := flowRow(broker, qos)
		results[row] = append(results[row], r)
		b.Progress("  %s: %.0f/s, %.2f µs of CPU each, busy %.0f %%, driver %.0f %%, lost %d", row, r.rate(), 1e6/r.perCPU(), 100*r.Share, 100*r.Driver, r.lost)
	}
	return nil
}

func (b *bench) flowOnce(ctx context.Context, p *measured.Process, publishers, subscribers int, qos uint8) (r flowed, err error) {
	f, err := newFlow(ctx, p.Addr, publishers, subscribers, qos)
	if err != nil {
		return r, err
	}
	defer f.close()
	return f.measure(ctx, b.Length, p.PID)
}

func (b *bench) reportFlow(title, about string, results map[string][]flowed) string {
	var rows []string
	for qos := range uint8(2) {
		for _, broker := range brokers() {
			rows = append(rows, flowRow(broker, qos))
		}
	}
	table := figures.Table("broker", rows, results,
		figures.Col("copies/s", 0, flowed.rate), figures.Col("µs of CPU each", 2, func(r flowed) float64 { return 1e6 / r.perCPU() }),
		figures.Percent("busy", func(r flowed) float64 { return r.Share }), figures.Percent("generator", func(r flowed) float64 { return r.Driver }),
		figures.Percent("others", func(r flowed) float64 { return r.Others }), figures.Count("lost", func(r flowed) int { return int(r.lost) }),
		figures.Count("repeated or out of order", func(r flowed) int { return int(r.repeated) }))
	if table == "" {
		return ""
	}
	var lost uint64
	for _, r := range results[flowRow(holter, 1)] {
		lost += r.lost + r.repeated
	}
	return fmt.Sprintf("\n### %s\n\n%s\n\n%s\nTarget for holter: with QoS 1 each message comes once and in order: %s.\n", title, about, table, figures.Met(lost == 0))
}
