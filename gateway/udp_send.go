package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// firstRepeat is after how long a message to a device over UDP is sent again, unless the device
// acknowledges it. Then the time doubles.
const firstRepeat = time.Second

// downlink holds the messages to a device over UDP. One is on its way at a time, and is repeated
// until the device acknowledges its number. Numbers rise, so that the device knows a repeated
// message, and one that was long on its way. They begin with the time of day, which is later than
// the numbers of an earlier process; where it is not, the device acknowledges a greater number than
// that of the message, which is then sent under a number above.
type downlink struct {
	turn   chan struct{} // room for one, which is there while a message is on its way; never closed
	acks   chan uint64   // room for the latest number that the device has acknowledged; never closed
	number uint64        // of the latest message; of whoever has the turn
}

// next returns the number of the next message, which is greater than after.
func (d *downlink) next(after uint64, now time.Time) uint64 {
	d.number = max(after+1, uint64(max(now.UnixMilli(), 0)))
	return d.number
}

// downlink returns the device's downlink; nil if its protocol does not number messages.
func (v *udpSession) downlink() *downlink {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.conversation.codec.(codec.Numberer); !ok {
		return nil
	}
	if v.messages == nil {
		v.messages = &downlink{turn: make(chan struct{}, 1), acks: make(chan uint64, 1)}
	}
	return v.messages
}

// acknowledgedLocked notes the number of the latest message that the device has, if the datagram
// proves whose it is.
func (v *udpSession) acknowledgedLocked(number uint64) {
	if d := v.messages; d != nil && v.provenLocked() {
		select {
		case <-d.acks: // an earlier one
		default:
		}
		d.acks <- number // only this goroutine, which has the lock, fills it
	}
}

// deliver sends a message, and waits until the device acknowledges it. Raw bytes, and the messages
// of a protocol without numbers, are sent once.
func (v *udpSession) deliver(ctx context.Context, l *outbound) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w; nothing was written", context.Cause(ctx))
	}
	d := v.downlink()
	if d == nil || l.raw {
		return explain(v.send(l))
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w; nothing was written: the device has not acknowledged the message before", context.Cause(ctx))
	}
	select {
	case <-d.acks: // of an earlier message
	default:
	}
	counts := &v.udp.counts
	l.number = d.next(d.number, time.Now())
	times := 0
	for wait := v.udp.repeat; ; wait *= 2 {
		switch err := v.send(l); {
		case err == nil:
			times++
		case times == 0:
			return explain(err)
		case errors.Is(err, ErrNotConnected):
			counts.unacknowledged.Add(1)
			return fmt.Errorf("%w; the message was sent %d times, and may have arrived", err, times)
		}
		if times > 1 {
			counts.repeated.Add(1)
		}
		if done, err := d.await(ctx, wait, l); done {
			counts.acknowledged.Add(1)
			l.sent.Acknowledged = true
			return nil
		} else if err != nil {
			counts.unacknowledged.Add(1)
			return fmt.Errorf("%w: it was sent %d times, and may have arrived", err, times)
		}
	}
}

// await waits until the device acknowledges the message, or it is time to send it again; the
// message may have a new number then.
func (d *downlink) await(ctx context.Context, wait time.Duration, l *outbound) (done bool, err error) {
	again := time.NewTimer(wait)
	defer again.Stop()
	for {
		select {
		case number := <-d.acks:
			switch {
			case number == l.number:
				return true, nil
			case number > l.number:
				l.number = d.next(number, time.Now())
				return false, nil
			}
		case <-again.C:
			return false, nil
		case <-ctx.Done():
			return false, ErrUnacknowledged
		}
	}
}
