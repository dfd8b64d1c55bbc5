package mqtt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/holter-iot/holter/bench/internal/measured"
)

const (
	perBatch   = 100    // messages of one write
	window     = 20_000 // messages on their way, at most: nothing has to be dropped
	warmup     = time.Second / 2
	patience   = 20 * time.Second // for a message to arrive, and for answers
	publishers = 50               // connections: mosquitto reads one packet of each in turn
)

// taken is how a subscriber took messages.
type taken struct {
	measured.Usage

	messages uint64
	lost     uint64
}

// rate returns messages per second.
func (r taken) rate() float64 { return float64(r.messages) / r.Elapsed.Seconds() }

// perMillion returns CPU seconds per million messages.
func (r taken) perMillion() float64 { return r.CPU.Seconds() / float64(r.messages) * 1e6 }

// perCPU returns messages per CPU second.
func (r taken) perCPU() float64 { return float64(r.messages) / r.CPU.Seconds() }

// measureRelay measures how a subscriber takes messages by way of mosquitto.
func (b *bench) measureRelay(ctx context.Context, subscriber string) error {
	if !b.Wanted(relay, subscriber) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stepLife)
	defer cancel()
	r, err := b.relay(ctx, subscriber)
	if err != nil {
		return fmt.Errorf("relay, %s: %w", subscriber, err)
	}
	b.relayed[subscriber] = append(b.relayed[subscriber], r)
	b.Progress("relay %-11s %8.0f messages/s, %.2f CPU s per million, %d lost; busy %3.0f %%, driver %3.0f %%, others %3.0f %% of a core",
		subscriber, r.rate(), r.perMillion(), r.lost, 100*r.Share, 100*r.Driver, 100*r.Others)
	return nil
}

func (b *bench) relay(ctx context.Context, subscriber string) (r taken, err error) {
	server, err := b.start(ctx, measured.Beside, brokerMosquitto)
	if err != nil {
		return r, err
	}
	defer server.Stop()
	p, err := b.start(ctx, measured.Alone, subscriber, "tcp://"+server.Addr.String())
	if err != nil {
		return r, err
	}
	defer p.Stop()
	if b.stream == nil {
		b.stream = prepare(b.devices)
	}
	f := &feed{process: p, stream: b.stream, devices: b.devices}
	defer f.close()
	for i := range publishers {
		conn, err := dialPublisher(ctx, server.Addr.String(), i)
		if err != nil {
			return r, err
		}
		f.conns = append(f.conns, conn)
	}
	return f.measure(ctx, b.Length, server.PID)
}

// prepare encodes a message of each device, in a random order that is always the same, in batches.
func prepare(devices int) [][]byte {
	var stream [][]byte
	var batch bytes.Buffer
	for n, i := range rand.New(rand.NewPCG(1, 2)).Perm(devices) {
		p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
		p.TopicName = fmt.Sprintf("fleet/device-%06d/beat", i)
		p.Payload = []byte(`{"uptime":86400}`)
		_ = p.Write(&batch) // into memory
		if (n+1)%perBatch == 0 || n+1 == devices {
			stream = append(stream, bytes.Clone(batch.Bytes()))
			batch.Reset()
		}
	}
	return stream
}

// connectPacket returns a CONNECT of MQTT 3.1.1.
func connectPacket(id string, keepAlive time.Duration) []byte {
	var out bytes.Buffer
	p := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	p.ProtocolName, p.ProtocolVersion, p.CleanSession = "MQTT", 4, true
	p.ClientIdentifier, p.Keepalive = id, uint16(keepAlive/time.Second)
	_ = p.Write(&out) // into memory
	return out.Bytes()
}

func dialPublisher(ctx context.Context, addr string, i int) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, err = conn.Write(connectPacket(fmt.Sprintf("publisher-%d", i), 0))
	if err == nil {
		var answer packets.ControlPacket
		answer, err = packets.ReadPacket(conn)
		if ack, ok := answer.(*packets.ConnackPacket); err == nil && (!ok || ack.ReturnCode != packets.Accepted) {
			err = fmt.Errorf("the broker answers %v", answer)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("publisher %d: %w", i, err), conn.Close())
	}
	return conn, conn.SetDeadline(time.Time{})
}

// feed sends the messages of the devices again and again, as fast as a subscriber counts them.
type feed struct {
	process *measured.Process
	conns   []net.Conn // of the publishers
	stream  [][]byte
	devices int

	turn     int
	sent     uint64
	received uint64
}

func (f *feed) close() {
	for _, c := range f.conns {
		_ = c.Close()
	}
}

func (f *feed) count() (n counts, err error) {
	err = f.process.Ask(askCounts, &n)
	return n, err
}

// run sends for a while, and until every device has sent once.
func (f *feed) run(ctx context.Context, length time.Duration) error {
	for end := time.Now().Add(length); ; {
		if err := f.wait(ctx, window/2); err != nil {
			return err
		}
		batch := f.turn % len(f.stream)
		if _, err := f.conns[f.turn%publishers].Write(f.stream[batch]); err != nil {
			return err
		}
		f.turn++
		f.sent += uint64(min(perBatch, f.devices-batch*perBatch))
		if f.sent >= uint64(f.devices) && time.Now().After(end) {
			return nil
		}
	}
}

// wait waits until at most so many messages are on their way.
func (f *feed) wait(ctx context.Context, most uint64) error {
	for last := time.Now(); f.sent-f.received > most; {
		c, err := f.count()
		if err != nil {
			return err
		}
		if n := c.Applied + c.Lost; n > f.received {
			f.received, last = n, time.Now()
			continue
		}
		if time.Since(last) > patience {
			return fmt.Errorf("%d of %d messages did not arrive", f.sent-f.received, f.sent)
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// measure feeds the subscriber for a while, after every device has been heard once.
func (f *feed) measure(ctx context.Context, length time.Duration, driver int) (r taken, err error) {
	if err := f.run(ctx, min(warmup, length)); err != nil {
		return r, err
	}
	begin, err := f.count()
	if err != nil {
		return r, err
	}
	m, err := measured.StartMeter(f.process.PID, driver)
	if err != nil {
		return r, err
	}
	if err := f.run(ctx, length); err != nil {
		return r, err
	}
	end, err := f.count()
	if err != nil {
		return r, err
	}
	if r.Usage, err = m.Read(); err != nil {
		return r, err
	}
	r.messages = end.Applied - begin.Applied
	if err := f.wait(ctx, 0); err != nil {
		return r, err
	}
	last, err := f.count()
	r.lost = last.Lost
	return r, err
}
