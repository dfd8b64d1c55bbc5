package liveness

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrMissed is wrapped by what [Log.Read] and [Log.Wait] return when events after the reader's place are no longer kept, or the log
// does not know the place.
var ErrMissed = errors.New("liveness: events were missed")

// Log is a [Sink] that keeps the latest events in memory and gives each an offset, from 1 on. Readers hold a place in it and come
// back for more; none of them can hold up another or the log: who is too slow is told what he missed. Make one with [NewLog].
type Log struct {
	mu      sync.Mutex // guards the fields below
	ring    []Event    // grows to keep
	keep    int
	first   uint64        // offset after which the log began
	last    uint64        // offset of the latest event
	changed chan struct{} // closed and replaced when events come; nil while nobody waits
}

// NewLog returns an empty log that keeps at most keep events, default 100,000.
func NewLog(keep int) (*Log, error) {
	if keep == 0 {
		keep = 100_000
	}
	if keep < 0 {
		return nil, fmt.Errorf("liveness: log of %d events, want 1 or more", keep)
	}
	return &Log{keep: keep}, nil
}

// Resume makes an empty log go on after an offset: the next event gets the one that follows.
func (l *Log) Resume(last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring, l.first, l.last = nil, last, last
}

// Append implements [Sink]. It never fails and never blocks.
func (l *Log) Append(_ context.Context, events []Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range events {
		l.last++
		events[i].Offset = l.last
		if len(l.ring) < l.keep {
			l.ring = append(l.ring, events[i])
		} else {
			l.ring[(l.last-l.first-1)%uint64(l.keep)] = events[i]
		}
		l.ring[(l.last-l.first-1)%uint64(l.keep)].Record = nil // readers have no use for it
	}
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return nil
}

// Bounds returns the offsets of the oldest event that is kept and of the latest; if there are none, the oldest is the next one, 1 in a
// new log.
func (l *Log) Bounds() (oldest, latest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.oldestLocked(), l.last
}

func (l *Log) oldestLocked() uint64 { return l.last - uint64(len(l.ring)) + 1 }

// Read appends at most limit events after an offset to buffer; after 0 it begins with the oldest that is kept. If events right after
// that offset are gone, it returns none, and an error that wraps ErrMissed and says how many; read on from Bounds. So it does for an
// offset that was not given yet: that is a place in another log, one of before a restart.
func (l *Log) Read(buffer []Event, after uint64, limit int) ([]Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readLocked(buffer, after, limit)
}

func (l *Log) readLocked(buffer []Event, after uint64, limit int) ([]Event, error) {
	oldest := l.oldestLocked()
	if after == 0 {
		after = oldest - 1
	}
	if after > l.last {
		return buffer, fmt.Errorf("%w: offset %d lies beyond the latest, %d", ErrMissed, after, l.last)
	}
	if after+1 < oldest {
		return buffer, fmt.Errorf("%w: %d after offset %d, the oldest kept is %d", ErrMissed, oldest-after-1, after, oldest)
	}
	for at := after + 1; at <= l.last && limit > 0; at++ {
		buffer = append(buffer, l.ring[(at-l.first-1)%uint64(l.keep)])
		limit--
	}
	return buffer, nil
}

// Wait is like Read, but waits until there is an event or ctx is done.
func (l *Log) Wait(ctx context.Context, buffer []Event, after uint64, limit int) ([]Event, error) {
	for {
		l.mu.Lock()
		got, err := l.readLocked(buffer, after, limit)
		if len(got) > len(buffer) || err != nil {
			l.mu.Unlock()
			return got, err
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return buffer, context.Cause(ctx)
		}
	}
}
