package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

const (
	// askEvery is how often a database is asked for a sign of life.
	askEvery = 500 * time.Millisecond
	// slowAnswer is after how long without an answer a database counts as hung. With askEvery it makes 1.5 s in all.
	slowAnswer = time.Second
	// slowAppend is the same for an append, which writes much at a time and may wait for others.
	slowAppend = 5 * time.Second
)

// watch asks the database for a sign of life until ctx is done. It waits for an answer as long as everybody does, while Health says that
// there is none.
func (s *Store) watch(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		err := s.ask(ctx)
		if ctx.Err() != nil || errors.Is(err, ErrNotOpen) {
			err = nil
		}
		s.record.answer(err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask fails if the database does not answer, or the lock is lost and cannot be taken again. That the lock is lost does no harm by itself:
// the fence protects what is written.
func (s *Store) ask(ctx context.Context) error {
	s.state.RLock()
	d, l := s.database, s.lock
	s.state.RUnlock()
	if d == nil {
		return ErrNotOpen
	}
	if _, ok := d.backend.(*sqliteDB); ok { // begin notes how long it has to wait for other programs; waiting for ourselves does not count
		if err := d.transact(ctx, func(context.Context, bun.Tx) error { return nil }); err != nil {
			return s.wrap("write", err)
		}
		return nil
	}
	s.record.ask(time.Now()) // the connection that holds the lock does nothing else
	if err := l.check(ctx); err != nil {
		return s.wrap("hold the lock", err)
	}
	return nil
}

// signs are the signs of life of a database.
type signs struct {
	asked     time.Time // when it was asked what it has not answered yet; zero if it has
	err       error     // of the latest answer
	since     time.Time // when the first of such answers came
	file      error     // what is wrong with the files
	fileSince time.Time
	appending time.Time // when the append began that is under way; zero if there is none
}

// bad says what is wrong, nil if nothing is. A transaction waits to begin since an instant, if that is not zero.
func (g *signs) bad(now, waiting time.Time) error {
	silent := func(since time.Time, most time.Duration, what string) error {
		if d := now.Sub(since); !since.IsZero() && d > most {
			return fmt.Errorf("%s for %v: %w", what, d.Round(100*time.Millisecond), errSilent)
		}
		return nil
	}
	if g.file != nil {
		return fmt.Errorf("since %s nothing counts as written: %w", g.fileSince.Format(time.TimeOnly), g.file)
	}
	if err := silent(g.asked, slowAnswer, "the database has not answered"); err != nil {
		return err
	}
	if err := silent(waiting, slowAnswer, "the database file is locked"); err != nil {
		return err
	}
	if g.err != nil {
		return fmt.Errorf("the database does not answer as it should since %s: %w", g.since.Format(time.TimeOnly), g.err)
	}
	return silent(g.appending, slowAppend, "events have waited to be written")
}

// errSilent is wrapped while a database does not answer.
var errSilent = errors.New("it hangs, is overloaded or locked by another program, or cannot be reached")

// ask notes that the database was asked.
func (r *recorder) ask(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signs.asked = now
}

// answer notes that it has answered.
func (r *recorder) answer(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signs.asked = time.Time{}
	switch {
	case err == nil:
		r.signs.since = time.Time{}
	case r.signs.err == nil:
		r.signs.since = time.Now()
	}
	if r.signs.err = err; err != nil {
		r.stats.Failures++
		r.stats.LastError, r.stats.LastErrorAt = err, time.Now()
	}
}

// file notes what is wrong with the files, nil for nothing.
func (r *recorder) file(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.signs.fileSince = time.Time{}
	} else if r.signs.file == nil {
		r.signs.fileSince = time.Now()
	}
	r.signs.file = err
	r.stats.Harmed = r.signs.fileSince
}

// repaired notes what was mended.
func (r *recorder) repaired(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Repairs++
	r.stats.LastRepair = what
}

// appending notes when an append began, or, with a zero time, that it has ended.
func (r *recorder) appending(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signs.appending = since
}
