package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/holter-iot/holter/bench/internal/measured"
)

const (
	perBatch = 100    // messages of one write
	window   = 20_000 // messages on their way, at most: nobody has to drop any
	warmup   = time.Second / 2
	patience = 20 * time.Second // for a message to arrive, and for answers
)

// prepare encodes a message of each device, all in a random order, in batches.
func prepare(devices int) [][]byte {
	var stream [][]byte
	var batch bytes.Buffer
	for n, i := range rand.New(rand.NewPCG(1, 2)).Perm(devices) { // the same each time is the point
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

// feed sends the messages of the devices round and round, as fast as a subscriber counts them.
type feed struct {
	stream  [][]byte
	devices int
	send    func(batch []byte, turn int) error
	count   func() (counts, error)

	turn     int
	sent     uint64
	received uint64
}

// run sends until done, and at least one batch.
func (f *feed) run(ctx context.Context, done func() bool) error {
	for {
		if err := f.wait(ctx, window/2); err != nil {
			return err
		}
		batch := f.turn % len(f.stream)
		if err := f.send(f.stream[batch], f.turn); err != nil {
			return err
		}
		f.turn++
		f.sent += uint64(min(perBatch, f.devices-batch*perBatch))
		if done() {
			return nil
		}
	}
}

// wait waits until no more than some messages are on their way.
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

// Taken is how a subscriber took messages.
type Taken struct {
	measured.Usage

	Messages uint64
	Lost     uint64
}

// rate returns messages per second.
func (r Taken) rate() float64 { return float64(r.Messages) / r.Elapsed.Seconds() }

// perMillion returns CPU seconds per million messages.
func (r Taken) perMillion() float64 { return r.CPU.Seconds() / float64(r.Messages) * 1e6 }

// perCPU returns messages per CPU second.
func (r Taken) perCPU() float64 { return float64(r.Messages) / r.CPU.Seconds() }

// measure feeds a subscriber for a while, after every device was heard once. A CPU profile of it is written if it has a name.
func (f *feed) measure(ctx context.Context, c *measured.Process, length time.Duration, profile string, drivers ...int) (r Taken, err error) {
	after := func(d time.Duration) func() bool {
		end := time.Now().Add(d)
		return func() bool { return f.sent >= uint64(f.devices) && time.Now().After(end) }
	}
	if err := f.run(ctx, after(warmup)); err != nil {
		return r, err
	}
	endProfile, err := c.ProfileCPU(profile)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, endProfile()) }()
	begin, err := f.count()
	if err != nil {
		return r, err
	}
	m, err := measured.StartMeter(c.PID, drivers...)
	if err != nil {
		return r, err
	}
	if err := f.run(ctx, after(length)); err != nil {
		return r, err
	}
	end, err := f.count()
	if err != nil {
		return r, err
	}
	if r.Usage, err = m.Read(); err != nil {
		return r, err
	}
	r.Messages = end.Applied - begin.Applied
	if err := f.wait(ctx, 0); err != nil {
		return r, err
	}
	last, err := f.count()
	r.Lost = last.Lost
	return r, err
}
