package liveness

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// handover is how many events the sink gets at a time.
	handover = 8192
	// stalledAfter is how long a full outbox waits for the sink until the sources' clocks stand
	// still.
	stalledAfter = 5 * time.Second
)

// outbox holds the events that wait for the sink, in the order in which they happened. Adding one
// never blocks: callers that can wait do so before, see wait and busy.
type outbox struct {
	limit  int
	clock  *clock
	queued atomic.Int64 // how many events the sink has not taken
	moved  atomic.Int64 // when it took some, or there was none: clock.elapsed, ns

	mu      sync.Mutex // guards the fields below; the last lock to be taken
	room    sync.Cond  // signalled when the sink has taken events, or the outbox was closed
	events  []Event
	came    uint64   // how many events were ever put in
	took    uint64   // how many of them the sink has taken
	waiting []waiter // callbacks of after, oldest first
	tickets uint64   // how many tickets were ever given out
	closed  bool     // no caller waits for room any more
	ended   bool     // no event is handed over any more
	waits   uint64
	fails   uint64
	lost    uint64
	long    int64  // bytes of the messages that wait and are longer than shortMessage
	cut     uint64 // messages that were cut because there are too many

	some chan struct{} // room for one; never closed; receives when there are events
}

func newOutbox(limit int, c *clock) *outbox {
	o := &outbox{limit: limit, clock: c, some: make(chan struct{}, 1)}
	o.room.L = &o.mu
	return o
}

// waiter is a callback for when the sink has taken the first so many events; false if it never
// will.
type waiter struct {
	came   uint64
	ticket uint64
	done   func(committed bool)
}

// after calls done once the sink has taken all events that were put in, at once if it has. It
// returns the ticket for withdraw.
func (o *outbox) after(done func(committed bool)) (ticket uint64) {
	o.mu.Lock()
	if o.took < o.came && !o.ended {
		o.tickets++
		ticket = o.tickets
		o.waiting = append(o.waiting, waiter{o.came, ticket, done})
		o.mu.Unlock()
		return ticket
	}
	committed := o.took == o.came
	o.mu.Unlock()
	done(committed)
	return 0
}

// withdraw removes a waiter that still waits.
func (o *outbox) withdraw(ticket uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, found := slices.BinarySearchFunc(o.waiting, ticket, func(w waiter, t uint64) int { return cmp.Compare(w.ticket, t) })
	if found {
		o.waiting = slices.Delete(o.waiting, at, at+1)
	}
}

// put adds events.
func (o *outbox) put(events ...Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		o.lost += uint64(len(events))
		o.came += uint64(len(events))
		return
	}
	if o.queued.Add(int64(len(events))) == int64(len(events)) {
		o.moved.Store(int64(o.clock.elapsed()))
	}
	for i := range events {
		o.shortenLocked(&events[i])
	}
	o.events = append(o.events, events...)
	o.came += uint64(len(events))
	select {
	case o.some <- struct{}{}:
	default:
	}
}

// shortenLocked cuts the message of an event that is put in: to MaxMessage, or to shortMessage while too much waits.
func (o *outbox) shortenLocked(e *Event) {
	if len(e.Message) <= shortMessage {
		return
	}
	e.Message = lastOf(e.Message, MaxMessage)
	if o.long+int64(len(e.Message)) > longMessages {
		e.Message = lastOf(e.Message, shortMessage)
		o.cut++
		return
	}
	o.long += int64(len(e.Message))
}

// longBytes returns how many bytes the messages of events have that are longer than shortMessage.
func longBytes(events []Event) (sum int64) {
	for i := range events {
		if n := len(events[i].Message); n > shortMessage {
			sum += int64(n)
		}
	}
	return sum
}

// wait waits while the outbox is full, and reports whether it did. Call it without any lock.
func (o *outbox) wait() bool {
	if o.queued.Load() < int64(o.limit) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queued.Load() < int64(o.limit) || o.closed {
		return false
	}
	o.waits++
	for o.queued.Load() >= int64(o.limit) && !o.closed {
		o.room.Wait()
	}
	return true
}

// busy reports whether only verdicts, which wait, may cause further events.
func (o *outbox) busy() bool { return o.queued.Load() >= 2*int64(o.limit) }

// stalled returns for how long the outbox has been full without the sink taking anything, 0 if the
// sink works.
func (o *outbox) stalled() time.Duration {
	if o.queued.Load() < int64(o.limit) {
		return 0
	}
	if idle := o.clock.elapsed() - time.Duration(o.moved.Load()); idle >= stalledAfter {
		return idle
	}
	return 0
}

// takeBatch returns all events, and leaves buffer for the next ones.
func (o *outbox) takeBatch(buffer []Event) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	events := o.events
	o.events = buffer[:0]
	return events
}

// taken records that the sink has taken n events, with so many bytes in long messages.
func (o *outbox) taken(n int, long int64) {
	o.mu.Lock()
	o.long -= long
	o.moved.Store(int64(o.clock.elapsed()))
	o.queued.Add(-int64(n))
	o.took += uint64(n)
	done := 0
	for done < len(o.waiting) && o.waiting[done].came <= o.took {
		done++
	}
	satisfied := o.waiting[:done:done]
	o.waiting = o.waiting[done:]
	o.room.Broadcast()
	o.mu.Unlock()
	for _, w := range satisfied {
		w.done(true)
	}
}

// abandon tells all waiters that the sink will not take what they wait for.
func (o *outbox) abandon() {
	o.mu.Lock()
	waiting := o.waiting
	o.waiting = nil
	o.mu.Unlock()
	for _, w := range waiting {
		w.done(false)
	}
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

// close lets all callers that wait for room go on, beyond the limit.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.room.Broadcast()
}

// drain appends what comes to a sink until ctx is done, and then what is left. It calls committed
// with what the sink has taken. It fails if the sink refuses what is left; then all that follows is
// dropped, so that what the sink has is without gaps.
func (o *outbox) drain(ctx context.Context, sink Sink, committed func([]Event)) error {
	defer o.abandon()
	var buffer []Event
	for {
		select {
		case <-o.some:
		case <-ctx.Done():
			return o.append(ctx, sink, o.end(), committed)
		}
		events := o.takeBatch(buffer)
		if err := o.append(ctx, sink, events, committed); err != nil {
			o.lose(len(o.end()))
			return err
		}
		clear(events)
		if buffer = events; cap(buffer) > 2*handover { // of a burst that is over
			buffer = nil
		}
	}
}

// append offers events to the sink, in batches, until it takes them. Once ctx is done it offers
// each once more.
func (o *outbox) append(ctx context.Context, sink Sink, events []Event, committed func([]Event)) error {
	for len(events) > 0 {
		batch := events[:min(handover, len(events))]
		long := longBytes(batch) // the sink may change them
		if err := o.offer(ctx, sink, batch); err != nil {
			o.lose(len(events))
			return err
		}
		committed(batch)
		o.taken(len(batch), long)
		events = events[len(batch):]
	}
	return nil
}

// offer offers a batch until the sink takes it.
func (o *outbox) offer(ctx context.Context, sink Sink, batch []Event) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := sink.Append(context.WithoutCancel(ctx), batch)
		if err == nil {
			return nil
		}
		o.fail()
		if ctx.Err() != nil {
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
	o.queued.Add(-int64(n))
}

// stats fills in the outbox's figures.
func (o *outbox) stats(st *Stats) {
	st.StalledFor = o.stalled()
	o.mu.Lock()
	defer o.mu.Unlock()
	st.Queued, st.Waits, st.Fails, st.Lost, st.Cut = int(o.queued.Load()), o.waits, o.fails, o.lost, o.cut
}
