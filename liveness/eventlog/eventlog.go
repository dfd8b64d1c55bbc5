// Package eventlog keeps the latest events of a registry in memory, for readers that follow them at
// their own pace.
package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holter-iot/holter/liveness"
)

// ErrMissed is wrapped by what [Log.Read] and [Log.Wait] return when events after the reader's
// place are no longer kept, or the log does not know the place.
var ErrMissed = errors.New("eventlog: events were missed")

// Log is a [liveness.Sink] that keeps the latest events in memory and gives each an offset, from 1
// on. A reader holds a place in it and comes back for more. No reader holds up another or the log:
// one that is too slow is told how many events it missed. Make one with [New]. All methods may be
// called concurrently.
type Log struct {
	mu      sync.Mutex         // guards the fields below
	pages   [][]liveness.Event // of pageLen events, the last one of fewer
	spare   []liveness.Event   // the next page; nil unless one was released
	keep    int
	base    uint64        // offset before the first event in pages
	oldest  uint64        // offset of the oldest event that is kept, or of the next one
	last    uint64        // offset of the latest event
	text    int           // bytes of the messages that are kept
	changed chan struct{} // closed and replaced when events come; nil while no reader waits
}

// pageLen is how many events share memory that is released at once.
const pageLen = 512

// maxText is how many bytes of messages are kept. Beyond that the oldest events go, as if they were too many.
const maxText = 16 << 20

// New returns an empty log that keeps at most keep events, default 100,000, and no more than have 16 MiB of
// messages.
func New(keep int) (*Log, error) {
	if keep == 0 {
		keep = 100_000
	}
	if keep < 0 {
		return nil, fmt.Errorf("eventlog: log of %d events, want 1 or more", keep)
	}
	return &Log{keep: keep, oldest: 1}, nil
}

// Resume makes an empty log go on after an offset: the next event gets the one that follows.
func (l *Log) Resume(last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages, l.base, l.oldest, l.last, l.text = nil, last, last+1, last, 0
}

// Append implements [liveness.Sink]. It never fails and never blocks.
func (l *Log) Append(_ context.Context, events []liveness.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range events {
		l.last++
		events[i].Offset = l.last
		l.pushLocked(&events[i])
		l.text += len(events[i].Message)
	}
	for l.text > maxText {
		l.trimLocked(l.oldest)
	}
	if l.last > uint64(l.keep) {
		l.trimLocked(l.last - uint64(l.keep))
	}
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return nil
}

// pushLocked adds an event.
func (l *Log) pushLocked(e *liveness.Event) {
	n := len(l.pages)
	if n == 0 || len(l.pages[n-1]) == pageLen {
		l.pages = append(l.pages, l.newPageLocked())
		n++
	}
	l.pages[n-1] = append(l.pages[n-1], *e)
}

// newPageLocked returns a page without events.
func (l *Log) newPageLocked() []liveness.Event {
	if page := l.spare; page != nil {
		l.spare = nil
		return page
	}
	return make([]liveness.Event, 0, pageLen)
}

// Trim drops the events up to an offset, as if they were more than the log keeps, so that their
// memory can be used for other things.
func (l *Log) Trim(through uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trimLocked(min(through, l.last))
}

// trimLocked drops events, and releases the pages that have none left.
func (l *Log) trimLocked(through uint64) {
	for ; l.oldest <= through; l.oldest++ {
		l.text -= len(l.atLocked(l.oldest).Message)
	}
	gone := min(int((l.oldest-l.base-1)/pageLen), len(l.pages))
	if gone > 0 {
		clear(l.pages[0])
		l.spare = l.pages[0][:0]
	}
	clear(l.pages[:gone])
	l.pages = l.pages[gone:]
	l.base += uint64(gone) * pageLen
}

// atLocked returns the event with an offset, which is kept.
func (l *Log) atLocked(offset uint64) *liveness.Event {
	i := offset - l.base - 1
	return &l.pages[i/pageLen][i%pageLen]
}

// Bounds returns the offsets of the oldest event that is kept and of the latest. If none is kept,
// oldest is the offset of the next event, 1 in a new log.
func (l *Log) Bounds() (oldest, latest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.oldest, l.last
}

// Read appends at most limit events after an offset to buffer; after 0 it begins with the oldest
// that is kept. If events right after that offset are gone, it returns none, and an error that
// wraps ErrMissed and says how many; read on from Bounds. An offset that was not given yet is a
// place in another log, one of before a restart, and ErrMissed as well.
func (l *Log) Read(buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readLocked(buffer, after, limit)
}

func (l *Log) readLocked(buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error) {
	if after == 0 {
		after = l.oldest - 1
	}
	if after > l.last {
		return buffer, fmt.Errorf("%w: offset %d lies beyond the latest, %d", ErrMissed, after, l.last)
	}
	if after+1 < l.oldest {
		return buffer, fmt.Errorf("%w: %d after offset %d, the oldest kept is %d", ErrMissed, l.oldest-after-1, after, l.oldest)
	}
	for at := after + 1; at <= l.last && limit > 0; at++ {
		buffer = append(buffer, *l.atLocked(at))
		buffer[len(buffer)-1].Record = nil // readers have no use for it
		limit--
	}
	return buffer, nil
}

// Records returns the events after an offset as they came, with their records. Errors: ErrMissed if not all
// of them are kept.
func (l *Log) Records(after uint64) ([]liveness.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after+1 < l.oldest || after > l.last {
		return nil, fmt.Errorf("%w: the oldest kept is %d, the latest %d", ErrMissed, l.oldest, l.last)
	}
	events := make([]liveness.Event, 0, l.last-after)
	for at := after + 1; at <= l.last; at++ {
		events = append(events, *l.atLocked(at))
	}
	return events, nil
}

// Wait is like Read, but waits until there is an event or ctx is done.
func (l *Log) Wait(ctx context.Context, buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error) {
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
