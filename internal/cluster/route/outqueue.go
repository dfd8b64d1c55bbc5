package route

import (
	"slices"
	"sync"

	"github.com/holter-iot/holter/internal/relay"
)

// outQueue holds the messages for another broker. Its methods do not block.
type outQueue struct {
	limit  int // bytes
	counts *counters
	wake   chan struct{} // has room for one; never closed: there may be something to send

	mu           sync.Mutex // guards the fields below
	unsent       []queued
	sent         []queued // and not acknowledged
	bytes        int      // of both,
	ahead        int      // and of unsent
	last         uint64   // number
	closed       bool     // nothing is taken in; at a hub: but what has QoS 1 and 2
	lostRetained bool     // a message was dropped that is retained
}

// queued is a message in an outQueue.
type queued struct {
	relay.Message

	number   uint64
	reliable bool // it is kept until it is acknowledged
}

func (l *queued) size() int {
	return len(l.Topic) + len(l.Payload) + len(l.Properties) + messageOverhead
}

func newOutQueue(cfg Config, counts *counters) outQueue {
	return outQueue{limit: cfg.MaxBytes, counts: counts, wake: make(chan struct{}, 1)}
}

// notify has the writer look.
func (b *outQueue) notify() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Full reports whether there is no room.
func (b *outQueue) Full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes >= b.limit
}

// behind reports whether there is no room for what is still to be sent.
func (b *outQueue) behind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ahead >= b.limit
}

// addLocked adds a message.
func (b *outQueue) addLocked(l queued) uint64 {
	b.last++
	l.number = b.last
	b.unsent = append(b.unsent, l)
	b.ahead += l.size()
	b.countLocked(l.size())
	b.notify()
	return l.number
}

func (b *outQueue) countLocked(n int) {
	b.bytes += n
	b.counts.queued.Add(int64(n))
}

// takeBatch takes the next messages to send.
func (b *outQueue) takeBatch() (taken []queued) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for size := 0; n < len(b.unsent) && n < maxMessages && size < maxBatch; n++ {
		l := &b.unsent[n]
		size += l.size()
		b.ahead -= l.size()
		if l.reliable {
			b.sent = append(b.sent, *l)
		} else {
			b.countLocked(-l.size())
		}
	}
	taken = b.unsent[:n:n] // nobody writes there
	if b.unsent = b.unsent[n:]; len(b.unsent) == 0 {
		b.unsent = nil
	}
	b.counts.sent.Add(uint64(n))
	return taken
}

// acknowledged forgets the messages up to a number.
func (b *outQueue) acknowledged(number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < len(b.sent) && b.sent[n].number <= number {
		b.countLocked(-b.sent[n].size())
		n++
	}
	clear(b.sent[:n])
	if b.sent = b.sent[n:]; len(b.sent) == 0 {
		b.sent = nil
	}
}

// resend has all be sent again that the other side has not received, which is up to a number, but what is
// not to stay.
func (b *outQueue) resend(received uint64, stays func(*queued) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, _ := slices.BinarySearchFunc(b.sent, received+1, func(l queued, number uint64) int { return int(int64(l.number) - int64(number)) })
	unsent := slices.Clone(b.sent[at:])
	b.sent = b.sent[:at:at]
	for i := range unsent {
		b.ahead += unsent[i].size()
	}
	for i := range b.unsent {
		if l := &b.unsent[i]; stays(l) {
			unsent = append(unsent, *l)
		} else {
			b.ahead -= l.size()
			b.countLocked(-l.size())
		}
	}
	b.unsent = unsent
	b.notify()
}

// dropAll drops everything, and returns the number of the last message. It reports how many that were whose
// sender relies on them.
func (b *outQueue) dropAll() (last uint64, lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range slices.Concat(b.sent, b.unsent) {
		if l.reliable {
			lost++
		}
	}
	b.countLocked(-b.bytes)
	b.sent, b.unsent, b.ahead = nil, nil, 0
	return b.last, lost
}

// close has nothing be taken in any more, or everything again.
func (b *outQueue) close(closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = closed
}

// idle reports whether nothing is to be sent.
func (b *outQueue) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.unsent) == 0
}

// control adds what is no message of a client's, whatever room there is.
func (b *outQueue) control(m relay.Message) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addLocked(queued{Message: m})
}

// takeLostRetained reports whether a message was dropped that is retained, and forgets that.
func (b *outQueue) takeLostRetained() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	lostRetained := b.lostRetained
	b.lostRetained = false
	return lostRetained
}
