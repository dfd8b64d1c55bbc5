package rivals

import "sync/atomic"

// mpsc is an unbounded queue without locks, of many producers and one consumer.
type mpsc[T any] struct {
	last  atomic.Pointer[mpscChunk[T]] // what producers fill
	first *mpscChunk[T]                // what the consumer reads, as the field below
	read  int                          // of its places
}

type mpscChunk[T any] struct {
	taken  atomic.Int64 // places that producers asked for, also in vain
	next   atomic.Pointer[mpscChunk[T]]
	places [1024]atomic.Pointer[T]
}

func newMPSC[T any]() *mpsc[T] {
	q := &mpsc[T]{first: &mpscChunk[T]{}}
	q.last.Store(q.first)
	return q
}

func (q *mpsc[T]) push(v *T) {
	for {
		c := q.last.Load()
		if i := int(c.taken.Add(1)) - 1; i < len(c.places) {
			c.places[i].Store(v)
			return
		}
		if c.next.Load() == nil {
			c.next.CompareAndSwap(nil, &mpscChunk[T]{})
		}
		q.last.CompareAndSwap(c, c.next.Load())
	}
}

// pop returns nil when the queue is empty, or a producer has not finished.
func (q *mpsc[T]) pop() *T {
	if q.read == len(q.first.places) {
		next := q.first.next.Load()
		if next == nil {
			return nil
		}
		q.first, q.read = next, 0
	}
	v := q.first.places[q.read].Load()
	if v != nil {
		q.read++
	}
	return v
}
