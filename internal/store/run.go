package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// Run writes checkpoints, deletes old events, and sorts the gaps of each hour until ctx is done. The first checkpoint follows as soon
// as a source listens, so that the next process also knows of a process that ran only briefly. It
// retries while the database fails. Errors: sqldb.ErrFenced, sqldb.ErrNotOpen, ErrChanged.
func (s *Store) Run(ctx context.Context, r *liveness.Registry) error {
	if !s.isLoaded() {
		return sqldb.ErrNotOpen
	}
	ctx, cancel := context.WithCancel(ctx)
	var living sync.WaitGroup
	watched := make(chan error, 1) // for the one value; nobody closes it
	living.Go(func() { watched <- s.db.Run(ctx) })
	defer living.Wait()
	defer cancel()
	tick, early := time.NewTicker(s.config.Checkpoint), time.NewTicker(lookEvery)
	trim := time.NewTicker(cachedFor)
	defer tick.Stop()
	defer early.Stop()
	defer trim.Stop()
	var seen uint64
	began := beginnings{at: make(map[string]time.Duration), told: make(map[string]bool)}
	for {
		select {
		case <-tick.C:
			early.Stop() // regular checkpoints are enough from here on
		case <-early.C:
			if !began.more(r) {
				continue
			}
		case <-trim.C:
			seen = s.trim(seen)
			continue
		case err := <-watched: // ctx is done, or another process has taken the database over
			return err
		case <-ctx.Done():
			return nil
		}
		err := s.Checkpoint(ctx, r)
		if err == nil {
			err = s.prune(ctx)
		}
		if err == nil {
			err = s.tidy(ctx, r)
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, sqldb.ErrFenced) || errors.Is(err, sqldb.ErrNotOpen) || errors.Is(err, ErrChanged) {
			return err
		}
		if err == nil && s.aside.Load() > 0 { // an operator may have deleted them
			_ = s.lookAside(ctx) // the next checkpoint reports a failure
		}
	}
}

const (
	// cachedFor is for how long an event stays in memory at least, if there is room. Readers that
	// are further behind read the database.
	cachedFor = time.Minute
	// cacheSize is the default of Config.Cache, how many events are in memory at most: the verdicts of 100,000 devices
	// that fall silent within a minute, at some 700 bytes each, so that all who follow read them without the database.
	cacheSize = 100_000
	// leastCached is how many of the latest events stay.
	leastCached = 1000
)

// trim drops events from memory up to those that it returned the last time, and returns the latest.
func (s *Store) trim(seen uint64) (latest uint64) {
	latest = s.last.Load()
	s.log.Trim(min(seen, latest-min(latest, leastCached)))
	return latest
}

// lookEvery is how often Run looks for a source that has begun to listen.
const lookEvery = 100 * time.Millisecond

// beginnings tracks which sources have listened since the process started.
type beginnings struct {
	at   map[string]time.Duration // listening time of a source when it was first seen
	told map[string]bool          // more has reported it
}

// more reports whether a source has listened that it did not report before.
func (b *beginnings) more(r *liveness.Registry) bool {
	found := false
	for _, src := range r.Sources() {
		name, now := src.Name(), src.Now()
		first, seen := b.at[name]
		switch {
		case !seen:
			b.at[name] = now
		case now > first && !b.told[name]:
			b.told[name], found = true, true
		}
	}
	return found
}

// pruneStep is the maximum number of events that one transaction deletes.
const pruneStep = 5000

// pruning is the operation that errors of prune name.
const pruning = "remove old events"

// prune deletes events that are too old, too many or too large.
func (s *Store) prune(ctx context.Context) error {
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	if err := s.size(ctx); err != nil && ctx.Err() == nil {
		s.record.prune(0, err)
		return err
	}
	for ctx.Err() == nil {
		removed, err := s.pruneSome(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
		}
		s.record.prune(removed, err)
		if err != nil || removed == 0 {
			return err
		}
	}
	return nil
}

// pruneSome deletes at most pruneStep of the oldest events.
func (s *Store) pruneSome(ctx context.Context) (removed uint64, err error) {
	oldest, latest := s.Bounds()
	end := min(oldest+pruneStep, latest+1)
	to, err := s.surplus(ctx, end, latest, 1)
	if err != nil || to <= oldest {
		return 0, err
	}
	if to, err = s.unneeded(ctx, to, end, latest); err != nil || to <= oldest {
		return 0, err
	}
	texts, err := s.textBytes(ctx, oldest, min(to, s.checkpoint.size.next))
	if err != nil {
		return 0, err
	}
	err = s.db.WriteLate(ctx, pruning, func(ctx context.Context, tx sqldb.Tx) error {
		if err := tx.Fence(ctx, "oldest = ?", to); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM events WHERE pos < ?", to); err != nil {
			return err
		}
		if to-oldest < pruneStep { // the last step
			return pruneForgotten(ctx, tx, to)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	s.oldest.Store(to)
	s.checkpoint.size.deleted(to, texts)
	s.record.eventsAre(s.eventBytes())
	return to - oldest, nil
}

// unneeded returns the offset, at most to, before which the outbox needs no event. Events that it needs
// are kept for twice as long as others, and then released, so that an outbox that makes no progress
// does not fill the disk.
func (s *Store) unneeded(ctx context.Context, to, end, latest uint64) (uint64, error) {
	if s.config.Outbox == nil {
		return to, nil
	}
	needed, err := s.config.Outbox.Needed(ctx)
	if err != nil || needed >= to {
		return to, err
	}
	most, err := s.surplus(ctx, end, latest, 2)
	if err != nil {
		return 0, err
	}
	if needed < most {
		if needed, err = s.config.Outbox.Release(ctx, most); err != nil {
			return 0, err
		}
	}
	return min(to, needed), nil
}

// pruneForgotten deletes the rows of forgotten devices whose events are deleted. It keeps the greatest
// of their event numbers.
func pruneForgotten(ctx context.Context, tx sqldb.Tx, to uint64) error {
	var seq sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT MAX(seq) FROM forgotten WHERE head < ?", to).Scan(&seq); err != nil || !seq.Valid {
		return err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM forgotten WHERE head < ?", to); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO forgotten (id, head, seq) VALUES ('', 0, ?)", seq.Int64)
	return err
}

// surplus returns the offset, at most end, before which events are too old, too many or too large. It multiplies
// the configured bounds by times.
func (s *Store) surplus(ctx context.Context, end, latest uint64, times int) (uint64, error) {
	keeps := s.keeps.Load()
	tooMany := uint64(0)
	if keep := uint64(times) * uint64(keeps.keep); latest+1 > keep {
		tooMany = latest + 1 - keep
	}
	oldest, _ := s.Bounds()
	now := s.db.Now()
	age := keeps.maxAge
	old := s.db.OldBefore(now, age)
	for range times - 1 { // twice the age may overflow
		old = old.Add(-age)
	}
	to, err := s.oldUntil(ctx, oldest, end, sqldb.Nanos(old), sqldb.Nanos(now))
	return min(max(tooMany, s.tooLarge(int64(times)*int64(keeps.maxBytes)), to), end), err
}

// oldUntil returns the offset before which the events of a range are too old: from before the instant
// old.
//
// Events are in the order in which they were written, which is mostly that of their times. If the clock
// was ahead, an event may have a time after now. It is then as old as a later event that is too old; if
// there is none, it stays. An event with a time between old and now keeps all events after it, for no
// longer than the maximum age. An event from a clock that was behind is too old itself, and takes only
// events with a time after now with it.
func (s *Store) oldUntil(ctx context.Context, from, end uint64, old, now int64) (to uint64, err error) {
	if from >= end {
		return end, nil
	}
	err = s.db.Read(ctx, pruning, func(ctx context.Context, q sqldb.Reader) error {
		row := q.QueryRowContext(ctx, "SELECT COALESCE(MIN(pos), ?) FROM events WHERE pos >= ? AND pos < ? AND at >= ? AND at <= ?", end, from, end, old, now)
		var young, last, after int64
		if err := row.Scan(&young); err != nil {
			return err
		}
		row = q.QueryRowContext(ctx, "SELECT COALESCE(MAX(pos), 0) FROM events WHERE pos >= ? AND pos < ? AND at < ?", from, young, old)
		if err := row.Scan(&last); err != nil {
			return err
		}
		to = max(uint64(last)+1, from)
		if to == end || uint64(young) < end {
			return nil
		}
		// The last events have times after now. The next one that has not is mostly right after them.
		err := q.QueryRowContext(ctx, "SELECT at FROM events WHERE pos >= ? AND at <= ? ORDER BY pos LIMIT 1", end, now).Scan(&after)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err == nil && after < old:
			to = end
		}
		return err
	})
	return to, err
}
