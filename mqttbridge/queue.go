package mqttbridge

import (
	"sync"
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// item is something to apply: a message, or an event of the connection.
type item struct {
	message  convention.Message
	listened time.Duration // time of the bridge's source when the message came
	kind     itemKind
	probe    uint64 // number of a watermark that came back
	link     *link
}

type itemKind uint8

const (
	message   itemKind = iota
	returned           // a watermark came back
	connected          // a new connection; stands before its first message
	review             // reviewAfter has passed on a connection
)

// queue holds items that are not applied yet. put never blocks: while the queue is full, messages
// are dropped and counted. Events of the connection are never dropped; there are few of them.
type queue struct {
	ready chan struct{} // capacity 1, never closed; receives when the queue is not empty

	mu      sync.Mutex // guards the fields below
	items   []item
	bytes   int
	limit   int
	dropped uint64
	gap     gap
	latest  time.Time // when the latest message came
}

// gap is a place in the queue where messages were dropped.
type gap struct {
	since time.Time // when the first of them came; zero if none was dropped
	after int       // number of items before it
}

func newQueue(limit int) *queue { return &queue{ready: make(chan struct{}, 1), limit: limit} }

// put adds an item.
func (q *queue) put(it item) {
	q.mu.Lock()
	size := len(it.message.Topic) + len(it.message.Payload)
	if it.kind == message {
		if len(q.items) >= q.limit || q.bytes+size > maxQueueBytes {
			q.dropped++
			if q.gap.since.IsZero() {
				q.gap = gap{it.message.Time, len(q.items)}
			}
			q.mu.Unlock()
			return
		}
		q.latest = it.message.Time
	}
	q.items = append(q.items, it)
	q.bytes += size
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// next takes all items, and takes back the slice that it returned the last time.
func (q *queue) next(used []item) (items []item, missing gap) {
	clear(used)
	q.mu.Lock()
	defer q.mu.Unlock()
	items, missing = q.items, q.gap
	q.items, q.bytes, q.gap = used[:0], 0, gap{}
	return items, missing
}

// depth returns the number of items in the queue and of messages dropped so far.
func (q *queue) depth() (waiting int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), q.dropped
}

// last returns when the latest message came.
func (q *queue) last() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.latest
}
