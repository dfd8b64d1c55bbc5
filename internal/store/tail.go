package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// Tail keeps, in the memory of a process, the latest events that its stores have committed, after the store
// is closed: those that are in the memory of the store, see [Config].Cache. A database may lose them, as
// after a failover to a replica that was behind. The next store of the same process that gets the Tail
// then appends them again, see [Lost]. The zero Tail has none. Its methods may be called concurrently.
type Tail struct {
	mu    sync.Mutex // guards the fields below
	fleet string     // identity of the database
	log   *eventlog.Log
	base  liveness.Event // the one before the first in the log, as the database had it
	stats LostStats
}

// LostStats counts what a database had committed and has lost.
type LostStats struct {
	Times  uint64 // how often events were lost
	Events uint64 // those that were lost
	Again  uint64 // of them, those that were appended again
}

// Lost is what [Store.Load] finds that the database had committed and has lost.
type Lost struct {
	From, To uint64 // offsets of the first and the last event; To is 0 if none was lost
	// Why is why they could not be appended again; nil if they were: with the same offsets, numbers and
	// contents, before anything else, and with all that follows from them ([Outbox]). It happens only if
	// the database has nothing but what this process knows.
	Why error
}

// Events returns how many events were lost.
func (l Lost) Events() uint64 {
	if l.To == 0 {
		return 0
	}
	return l.To - l.From + 1
}

// keep makes a log that a store has begun, after an event, the one that is kept.
func (t *Tail) keep(fleet string, log *eventlog.Log, base liveness.Event) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fleet, t.log, t.base = fleet, log, base
}

// of returns what is kept of a database: a log, which may be nil, and the event before its first one.
func (t *Tail) of(fleet string) (*eventlog.Log, liveness.Event) {
	if t == nil {
		return nil, liveness.Event{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fleet != fleet {
		return nil, liveness.Event{}
	}
	return t.log, t.base
}

// count counts what was lost.
func (t *Tail) count(l Lost) {
	if t == nil || l.Events() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Times++
	t.stats.Events += l.Events()
	if l.Why == nil {
		t.stats.Again += l.Events()
	}
}

func (t *Tail) read() LostStats {
	if t == nil {
		return LostStats{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// recall is what a process knows of the events that a database should have.
type recall struct {
	store *Store
	log   *eventlog.Log
	base  liveness.Event
	last  uint64 // offset of the latest event that was committed
}

// restoreEvents appends again what this process had committed and the database has lost, if it can. The log of
// this store is the one that is kept from here on.
func (s *Store) restoreEvents(ctx context.Context) (lost Lost, err error) {
	log, base := s.config.Tail.of(s.db.ID())
	if log != nil && log != s.log {
		r := recall{store: s, log: log, base: base}
		_, r.last = log.Bounds()
		if lost, err = r.lost(ctx); err == nil && lost.Events() > 0 && lost.Why == nil {
			err = s.appendAgain(ctx, log)
		}
		if errors.Is(err, ErrChanged) { // the next Load goes on without them
			s.config.Tail.count(Lost{From: s.last.Load() + 1, To: lost.To, Why: err})
			s.config.Tail.keep("", nil, liveness.Event{})
		}
		if err != nil {
			return lost, err
		}
	}
	if knew, has := s.config.Follower.latest(), s.last.Load(); lost.Events() == 0 && knew > has {
		lost = Lost{From: has + 1, To: knew, Why: errors.New("another process had committed them")}
	}
	s.config.Tail.count(lost)
	first, _ := s.log.Bounds()
	if base, err = s.event(ctx, first-1); err == nil {
		s.config.Tail.keep(s.db.ID(), s.log, base)
	}
	return lost, err
}

// event reads an event; it is zero if there is none.
func (s *Store) event(ctx context.Context, offset uint64) (liveness.Event, error) {
	got, err := s.query(ctx, nil, "pos = ?", offset)
	if err != nil || len(got) == 0 {
		return liveness.Event{}, err
	}
	return got[0], nil
}

// known returns the event at an offset; false if it is not in memory. At 0 there is none, the zero one.
func (r *recall) known(offset uint64) (liveness.Event, bool) {
	switch offset {
	case 0:
		first, _ := r.log.Bounds()
		return liveness.Event{}, first == 1
	case r.base.Offset:
		return r.base, true
	}
	got, err := r.log.Read(nil, offset-1, 1)
	if err != nil || len(got) == 0 || got[0].Offset != offset {
		return liveness.Event{}, false
	}
	return got[0], true
}

// lost compares what is known with what the database has.
func (r *recall) lost(ctx context.Context) (Lost, error) {
	oldest, has := r.store.Bounds()
	at := min(has, r.last) // the latest event that both should have
	lost := Lost{From: at + 1, To: r.last}
	first, _ := r.log.Bounds()
	ours, known := r.known(at)
	theirs, err := r.store.event(ctx, at)
	switch {
	case err != nil:
		return Lost{}, err
	case has >= r.last && (at < oldest || same(ours, theirs)): // what is no longer kept was not lost
		return Lost{}, nil
	case at > 0 && at < oldest:
		lost.Why = errors.New("the database has no event that could be compared")
	case !known || at+1 < first:
		lost.Why = fmt.Errorf("only those from %d on are in memory", first)
	case !same(ours, theirs):
		lost.From, err = r.parting(ctx, oldest, at)
		lost.Why = errors.New("the database has other events in their place")
	case !r.store.db.Resumed():
		lost.Why = errors.New("another process has had the database since")
	}
	return lost, err
}

// parting returns the offset of the first event of a range that is not what is in memory. The last one is
// not.
func (r *recall) parting(ctx context.Context, from, to uint64) (uint64, error) {
	first, _ := r.log.Bounds()
	for from = max(from, first); from < to; {
		got, err := r.store.readRange(ctx, nil, from-1, min(from+999, to))
		if err != nil {
			return 0, err
		}
		for _, theirs := range got {
			if ours, _ := r.known(from); !same(ours, theirs) {
				return from, nil
			}
			from++
		}
		if len(got) == 0 { // rows were deleted
			return from, nil
		}
	}
	return to, nil
}

// same reports whether two events are one. Either may have been read from a database, which keeps the
// times only.
func same(a, b liveness.Event) bool {
	return a.Offset == b.Offset && a.Type == b.Type && a.Subject == b.Subject && a.Seq == b.Seq && a.Epoch == b.Epoch &&
		a.Term == b.Term && a.Node == b.Node && sqldb.Nanos(a.Time) == sqldb.Nanos(b.Time) && a.Message == b.Message
}

const (
	// againStep is how many events are appended again in one transaction.
	againStep = 8192
	// againTries is how often that is tried. The first pause between is againPause, and each is twice the
	// one before: 6 s in all, for a server that was just promoted.
	againTries = 8
	againPause = 50 * time.Millisecond
)

// appendAgain appends the events of a log that the database does not have. Errors: ErrChanged if that fails
// again and again.
func (s *Store) appendAgain(ctx context.Context, log *eventlog.Log) error {
	events, err := log.Records(s.last.Load())
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.sources = make(map[string]bool)
	if err := s.readHeadsLocked(ctx, events); err != nil {
		return err
	}
	for tries, pause := 1, againPause; len(events) > 0; {
		n, err := s.writeLocked(ctx, events[:min(len(events), againStep)])
		events = events[n:]
		switch {
		case err == nil:
			tries, pause = 1, againPause
			continue
		case errors.Is(err, sqldb.ErrFenced), ctx.Err() != nil:
			return err
		case errors.Is(err, ErrChanged), tries == againTries:
			return fmt.Errorf("%w; events %d to %d cannot be appended again: %w", ErrChanged, events[0].Offset, events[len(events)-1].Offset, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		tries, pause = tries+1, 2*pause
	}
	return nil
}

// readHeadsLocked reads which events are the latest of the devices that events are of.
func (s *Store) readHeadsLocked(ctx context.Context, events []liveness.Event) error {
	nums := make(map[uint32]bool)
	for i := range events {
		if rec := events[i].Record; rec != nil {
			nums[rec.Num] = true
		}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(nums)), 1000) {
		err := s.db.Read(ctx, loading, func(ctx context.Context, q sqldb.Reader) error {
			return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
				var num uint32
				var head uint64
				err := rows.Scan(&num, &head)
				s.setHeadLocked(num, head)
				return err
			}, "SELECT num, head FROM device_states WHERE num IN (?)", sqldb.Ints(some))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
