package sqldb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// askEvery is how often a database in a file is asked for a sign of life.
	askEvery = 500 * time.Millisecond
	// slowAnswer is after how long without an answer the database counts as hung. With the renewals of
	// the lease it makes 2 s in all.
	slowAnswer = time.Second
)

// ErrSilent is wrapped by errors of [DB.Health] while the database does not answer.
var ErrSilent = errors.New("it hangs, is overloaded or locked by another program, or cannot be reached")

// Stats is a picture of a database at work.
type Stats struct {
	Failures    uint64    // questions for signs of life that failed
	LastError   error     // the latest of them; nil if there was none
	LastErrorAt time.Time // when it came
	// Harmed is since when the file of the database, or the data directory, has not been what it
	// was; zero if it is.
	Harmed time.Time
	Bytes  int64 // size of the database; 0 if it is not known, as that of a server
}

// Run watches the database until ctx is done or another process takes the database over: it asks a
// database in a file for signs of life, see [DB.Health], and looks after its notes and the file. Those
// of a server are the renewals of the lease. Errors: ErrFenced.
func (db *DB) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var files sync.WaitGroup
	defer files.Wait()
	defer cancel()
	files.Go(func() { db.keepFiles(ctx) })
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		db.ask(ctx)
		t := db.tenure.Load() // a database that is opened again has another
		select {
		case <-t.over:
			return t.err()
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// ask notes whether a database in a file can be written. beginOn notes how long it waits for other
// programs; a wait for our own writer does not count.
func (db *DB) ask(ctx context.Context) {
	if _, ok := db.backend.(*sqliteDB); !ok {
		return
	}
	var err error
	if c := db.current(); c != nil {
		err = db.wrap("write", c.transact(ctx, func(context.Context, Tx) error { return nil }))
	}
	if ctx.Err() != nil {
		err = nil
	}
	db.signs.answer(err)
}

// Lapsed returns for how long the lease may have been another process's, by the monotonic clock: 0 if it
// was renewed within 0.8 of its length. The fence protects what is written all the same. It is 0 for a
// file, and while the database is not open.
func (db *DB) Lapsed() time.Duration {
	db.state.RLock()
	l, ok := db.lock.(*lease)
	db.state.RUnlock()
	if !ok {
		return 0
	}
	return l.lapsed(time.Now())
}

// Health returns nil, or what is wrong with the database now and since when. It reports
// within 2 s that the database does not answer; that a file does not, while [DB.Run] is at work. It does not block. Errors:
// ErrFenced, ErrNotOpen, ErrFile, ErrSilent, and those of the database.
func (db *DB) Health() error {
	if err := db.tenure.Load().err(); err != nil {
		return fmt.Errorf("%w: this process must be restarted once the other one is gone", err)
	}
	c := db.current()
	if c == nil {
		return ErrNotOpen
	}
	return db.signs.bad(time.Now(), Time(c.waiting.Load()))
}

// Stats returns a picture of the database. It asks only the file system.
func (db *DB) Stats() Stats {
	db.signs.mu.Lock()
	defer db.signs.mu.Unlock()
	st := db.signs.stats
	st.Bytes = db.backend.size()
	return st
}

// Silent returns an error that wraps ErrSilent if now is later than since by more than most. It is
// nil for a zero since.
func Silent(what string, since, now time.Time, most time.Duration) error {
	if d := now.Sub(since); !since.IsZero() && d > most {
		return fmt.Errorf("%s for %v: %w", what, d.Round(100*time.Millisecond), ErrSilent)
	}
	return nil
}

// signs are the signs of life of a database.
type signs struct {
	mu    sync.Mutex // guards the fields below; no other lock is taken with it
	asked time.Time  // when the question was put that is not answered yet; zero if all are
	err   error      // of the latest answer
	since time.Time  // when the first of such answers came
	file  error      // what is wrong with the files
	stats Stats
}

// bad returns what is wrong, nil if nothing is. waiting is since when a transaction waits to begin,
// zero if none does.
func (g *signs) bad(now, waiting time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil {
		return fmt.Errorf("since %s nothing counts as written: %w", g.stats.Harmed.Format(time.TimeOnly), g.file)
	}
	if err := Silent("the database has not answered", g.asked, now, slowAnswer); err != nil {
		return err
	}
	if err := Silent("the database file is locked", waiting, now, slowAnswer); err != nil {
		return err
	}
	if g.err != nil {
		return fmt.Errorf("the database does not answer as it should since %s: %w", g.since.Format(time.TimeOnly), g.err)
	}
	return nil
}

// ask notes that the database was asked. It may have been asked before, and not have answered yet.
func (g *signs) ask(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked.IsZero() {
		g.asked = now
	}
}

// answer notes that the database has answered, or that it was not waited for any longer.
func (g *signs) answer(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil || causeOf(err, "") != causeTimeout {
		g.asked = time.Time{}
	}
	if err != nil {
		now := time.Now()
		if g.err == nil {
			g.since = now
		}
		g.stats.Failures++
		g.stats.LastError, g.stats.LastErrorAt = err, now
	}
	g.err = err
}

// files notes what is wrong with the files, nil for nothing.
func (g *signs) files(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.stats.Harmed = time.Time{}
	} else if g.file == nil {
		g.stats.Harmed = time.Now()
	}
	g.file = err
}
