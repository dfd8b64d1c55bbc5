package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
)

// Run writes a checkpoint again and again and removes what is too old or too much, until ctx is done. The first comes once a source
// listens, so that also a short life is known of. When the database fails it goes on trying. Errors: sqldb.ErrFenced, sqldb.ErrNotOpen.
func (s *Store) Run(ctx context.Context, r *liveness.Registry) error {
	if !s.isLoaded() {
		return sqldb.ErrNotOpen
	}
	ctx, cancel := context.WithCancel(ctx)
	var living sync.WaitGroup
	living.Go(func() { s.db.Run(ctx) })
	defer living.Wait()
	defer cancel()
	tick, early := time.NewTicker(s.config.Checkpoint), time.NewTicker(lookEvery)
	defer tick.Stop()
	defer early.Stop()
	began := beginnings{at: make(map[string]time.Duration), told: make(map[string]bool)}
	for {
		select {
		case <-tick.C:
			early.Stop() // from here on no life is short
		case <-early.C:
			if !began.more(r) {
				continue
			}
		case <-ctx.Done():
			return nil
		}
		err := s.Checkpoint(ctx, r)
		if err == nil {
			err = s.prune(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, sqldb.ErrFenced) || errors.Is(err, sqldb.ErrNotOpen) {
			return err
		}
		if err == nil && s.aside.Load() > 0 { // somebody may have removed them
			_ = s.lookAside(ctx) // what is wrong shows at the next checkpoint
		}
	}
}

// lookEvery is how often Run looks for a source that has begun to listen.
const lookEvery = 100 * time.Millisecond

// beginnings knows which sources have listened in this life.
type beginnings struct {
	at   map[string]time.Duration // what a clock read when it was seen first
	told map[string]bool          // more has said so
}

// more says whether a source has listened of which it did not say so before.
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

// pruneStep is how many events go in one transaction, so that none takes long.
const pruneStep = 5000

// pruning is what errors say of it.
const pruning = "remove old events"

// prune removes events that are too old or too many.
func (s *Store) prune(ctx context.Context) error {
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
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

// pruneSome removes at most pruneStep of the oldest events.
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
	err = s.db.WriteLate(ctx, pruning, func(ctx context.Context, tx sqldb.Tx) error {
		if err := tx.Fence(ctx, "oldest = ?", to); err != nil {
			return err
		}
		if _, err := tx.NewRaw("DELETE FROM events WHERE pos < ?", to).Exec(ctx); err != nil {
			return err
		}
		if to-oldest < pruneStep { // the last piece
			return pruneForgotten(ctx, tx, to)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	s.oldest.Store(to)
	return to - oldest, nil
}

// unneeded returns the offset, at most to, before which the outbox needs no event. Events that it needs
// are kept for twice as long as others, and then released: an outbox that does not get on must not
// fill the disk.
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

// pruneForgotten lets go of where the events of forgotten devices are found that are gone, but for the greatest of their numbers.
func pruneForgotten(ctx context.Context, tx sqldb.Tx, to uint64) error {
	var seq sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT MAX(seq) FROM forgotten WHERE head < ?", to).Scan(&seq); err != nil || !seq.Valid {
		return err
	}
	if _, err := tx.NewRaw("DELETE FROM forgotten WHERE head < ?", to).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewInsert().Model(&forgottenRow{Seq: uint64(seq.Int64)}).Exec(ctx)
	return err
}

// surplus returns the offset before which events are too many or too old, by so many times the bounds, but at most end.
func (s *Store) surplus(ctx context.Context, end, latest uint64, times int) (uint64, error) {
	tooMany := uint64(0)
	if keep := uint64(times) * uint64(s.config.Keep); latest+1 > keep {
		tooMany = latest + 1 - keep
	}
	oldest, _ := s.Bounds()
	now := s.db.Now()
	old := s.db.OldBefore(now, s.config.MaxAge)
	for range times - 1 { // twice the greatest age would be none
		old = old.Add(-s.config.MaxAge)
	}
	to, err := s.oldUntil(ctx, oldest, end, sqldb.Nanos(old), sqldb.Nanos(now))
	return min(max(tooMany, to), end), err
}

// oldUntil returns the offset before which the events of a range are too old, which happened before an instant.
//
// Events are in the order in which they were written, and mostly in that of their times. But a clock may have been ahead, and then an event
// says that it happens in a year. It is as old as one that comes after it and is too old; without such a one it stays. An event whose time is
// between old and now keeps those that come after it, also if it was ahead: for no longer than the greatest age, as until then it is to come.
// One from a clock that was behind is old itself, and takes none with it but those that are to come.
func (s *Store) oldUntil(ctx context.Context, from, end uint64, old, now int64) (to uint64, err error) {
	if from >= end {
		return end, nil
	}
	err = s.db.Read(ctx, pruning, func(ctx context.Context, q *bun.DB) error {
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
		// The last ones are to come; what is next is mostly right behind them.
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
