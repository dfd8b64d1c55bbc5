package mqtt

import (
	"context"
	"sync"
	"time"
)

// deadlines are the clients that are away, in a heap by when they are to be looked at.
type deadlines struct {
	mu      sync.Mutex // guards heap
	heap    []*away
	changed chan struct{} // has room for one: the first of heap is another one
}

// add puts in a client that leaves.
func (d *deadlines) add(a *away) {
	due := a.endsAt
	if a.will != nil && a.willAt.Before(due) {
		due = a.willAt
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a.due, a.at = due, len(d.heap)
	d.heap = append(d.heap, a)
	d.upLocked(a.at)
	if a.at == 0 {
		select {
		case d.changed <- struct{}{}:
		default:
		}
	}
}

// remove takes out a client that comes back, if it is in.
func (d *deadlines) remove(a *away) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.at < 0 {
		return
	}
	d.removeLocked(a.at)
}

func (d *deadlines) removeLocked(i int) {
	last := len(d.heap) - 1
	d.heap[i].at = -1
	if i < last {
		d.heap[i] = d.heap[last]
		d.heap[i].at = i
	}
	d.heap[last] = nil
	if d.heap = d.heap[:last]; i < last {
		d.downLocked(i)
		d.upLocked(i)
	}
}

func (d *deadlines) upLocked(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !d.heap[i].due.Before(d.heap[parent].due) {
			return
		}
		d.swapLocked(i, parent)
		i = parent
	}
}

func (d *deadlines) downLocked(i int) {
	for {
		child := 2*i + 1
		if child >= len(d.heap) {
			return
		}
		if child+1 < len(d.heap) && d.heap[child+1].due.Before(d.heap[child].due) {
			child++
		}
		if !d.heap[child].due.Before(d.heap[i].due) {
			return
		}
		d.swapLocked(i, child)
		i = child
	}
}

func (d *deadlines) swapLocked(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.heap[i].at, d.heap[j].at = i, j
}

// next takes out a client that is due at now; nil if there is none. Then wait is how long it takes
// until there is one, if nothing changes.
func (d *deadlines) next(now time.Time) (a *away, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.heap) == 0 {
		return nil, time.Hour
	}
	a = d.heap[0]
	if wait = a.due.Sub(now); wait > 0 {
		return nil, wait
	}
	d.removeLocked(0)
	return a, 0
}

// sweepEvery is how often retained messages that have expired are removed.
const sweepEvery = time.Minute

// runDeadlines does what comes due.
func (b *Broker) runDeadlines(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.deadlines.changed:
		case <-timer.C:
		case now := <-sweep.C:
			b.sweepRetained(now)
			continue
		}
		now := time.Now()
		a, wait := b.deadlines.next(now)
		for ; a != nil; a, wait = b.deadlines.next(now) {
			b.due(a, now)
		}
		timer.Reset(wait)
	}
}

// due publishes the will of a client that is away, or ends its session.
func (b *Broker) due(a *away, now time.Time) {
	s := a.session
	b.journal.hold()
	defer b.journal.unhold()
	s.mu.Lock()
	if s.away != a { // it is back
		s.mu.Unlock()
		return
	}
	w := s.takeWillLocked()
	if ends := !now.Before(a.endsAt); !ends {
		b.deadlines.add(a)
		s.mu.Unlock()
	} else {
		s.endLocked()
		s.mu.Unlock()
		b.clear(s, now)
	}
	b.publishWill(s, w, now)
}
