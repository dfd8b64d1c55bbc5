package liveness

import (
	"context"
	"sync"
	"time"
)

// outbox holds the events that wait for the sink, in the order in which they happened.
type outbox struct {
	limit int

	mu     sync.Mutex // guards the fields below; the last lock to be taken
	room   sync.Cond  // signalled when events were taken, or the outbox was closed
	events []Event
	closed bool // nobody waits for room
	ended  bool // nothing is handed over any more
	waits  uint64
	fails  uint64
	lost   uint64

	some chan struct{} // room for one; never closed; receives when there are events
}

func newOutbox(limit int) *outbox {
	o := &outbox{limit: limit, some: make(chan struct{}, 1)}
	o.room.L = &o.mu
	return o
}

// put adds events, and waits while the outbox is full: then whoever makes events is held, and with it the watermark of its source.
func (o *outbox) put(events ...Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.events) >= o.limit && !o.closed {
		o.waits++
	}
	for len(o.events) >= o.limit && !o.closed {
		o.room.Wait()
	}
	if o.ended {
		o.lost += uint64(len(events))
		return
	}
	o.events = append(o.events, events...)
	select {
	case o.some <- struct{}{}:
	default:
	}
}

// take returns all events, and gives buffer in exchange.
func (o *outbox) take(buffer []Event) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	events := o.events
	o.events = buffer[:0]
	o.room.Broadcast()
	return events
}

// end is take for the last time.
func (o *outbox) end() []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.ended = true, true
	events := o.events
	o.events = nil
	o.room.Broadcast()
	return events
}

// close lets everybody who waits for room go on, beyond the limit.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.room.Broadcast()
}

// drain appends what comes to a sink until ctx is done and then what is left. It fails if the sink refuses that; then whatever comes
// after what was refused is dropped, so that the sink has no gap but the end.
func (o *outbox) drain(ctx context.Context, sink Sink) error {
	var buffer []Event
	for {
		select {
		case <-o.some:
		case <-ctx.Done():
			return o.append(ctx, sink, o.end())
		}
		events := o.take(buffer)
		if err := o.append(ctx, sink, events); err != nil {
			o.lose(len(o.end()))
			return err
		}
		clear(events)
		buffer = events
	}
}

// append offers events to the sink until it takes them; once ctx is done it does so a last time.
func (o *outbox) append(ctx context.Context, sink Sink, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := sink.Append(context.WithoutCancel(ctx), events)
		if err == nil {
			return nil
		}
		o.fail()
		if ctx.Err() != nil {
			o.lose(len(events))
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (o *outbox) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails++
}

func (o *outbox) lose(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost += uint64(n)
}

// stats fills in what is known of the outbox.
func (o *outbox) stats(st *Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	st.Queued, st.Waits, st.Fails, st.Lost = len(o.events), o.waits, o.fails, o.lost
}
