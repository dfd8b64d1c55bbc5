package mqttbridge

import (
	"sync"
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// item is what waits to be applied: a message, or what happened to the connection.
type item struct {
	message  convention.Message
	listened time.Duration // of the bridge's source when the message came
	kind     itemKind
	probe    uint64 // of a watermark that came back
	link     *link
}

type itemKind uint8

const (
	message   itemKind = iota
	watermark          // it came back
	connected          // a new connection, before its first message
	review             // a minute later
)

// queue holds what has come and is not applied yet. It never blocks who puts something in: when it is full, messages are dropped and
// counted. What happened to the connection is never dropped; there are only a few of these.
type queue struct {
	ready chan struct{} // room for one; never closed; receives when there is something

	mu      sync.Mutex // guards the fields below
	items   []item
	bytes   int
	limit   int
	dropped uint64
	gap     gap
	latest  time.Time // when the latest message came
}

// gap is where messages were dropped.
type gap struct {
	since time.Time // when the first of them came; zero if none was
	after int       // items that came before it
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

// next takes all that waits, and gives back the slice of the last time.
func (q *queue) next(used []item) (items []item, missing gap) {
	clear(used)
	q.mu.Lock()
	defer q.mu.Unlock()
	items, missing = q.items, q.gap
	q.items, q.bytes, q.gap = used[:0], 0, gap{}
	return items, missing
}

// depth returns how many items wait, and how many messages were dropped.
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
