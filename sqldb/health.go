package sqldb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/uptrace/bun"
)

const (
	// askEvery is how often the database is asked for a sign of life.
	askEvery = 500 * time.Millisecond
	// slowAnswer is after how long without an answer the database counts as hung. With askEvery it
	// makes 1.5 s in all.
	slowAnswer = time.Second
)

// ErrSilent is wrapped by errors of [DB.Health] while the database does not answer.
var ErrSilent = errors.New("it hangs, is overloaded or locked by another program, or cannot be reached")

// Stats is a picture of a database at work.
type Stats struct {
	Failures    uint64    // answers to the questions of Run that were errors
	LastError   error     // the latest of them; nil if there was none
	LastErrorAt time.Time // when it came
	// Harmed is since when the file of the database, or the data directory, has not been what it
	// was; zero if it is.
	Harmed time.Time
	// Repairs is how often one of them was written anew because it was gone.
	Repairs    uint64
	LastRepair string // what was repaired the last time
	Bytes      int64  // size of the database; 0 if it is not known, as that of a server
}

// Run watches the database until ctx is done: it asks for signs of life, see [DB.Health], and looks
// after the notes and the file of the database.
func (db *DB) Run(ctx context.Context) {
	var files sync.WaitGroup
	defer files.Wait()
	files.Go(func() { db.keepFiles(ctx) })
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		// It waits for an answer as long as everybody does; meanwhile Health says that there is none.
		err := db.ask(ctx)
		if ctx.Err() != nil || errors.Is(err, ErrNotOpen) {
			err = nil
		}
		db.signs.answer(err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask returns an error if the database does not answer, or the lock is lost and cannot be taken
// again. The loss of the lock does no harm by itself: the fence protects what is written.
func (db *DB) ask(ctx context.Context) error {
	db.state.RLock()
	c, l := db.conns, db.lock
	db.state.RUnlock()
	if c == nil || l == nil {
		return ErrNotOpen
	}
	if _, ok := db.backend.(*sqliteDB); ok {
		// beginOn notes how long it waits for other programs; a wait for our own writer does not count.
		return db.wrap("write", c.transact(ctx, func(context.Context, bun.Tx) error { return nil }))
	}
	db.signs.ask(time.Now()) // the connection that holds the lock does nothing else
	return db.wrap("hold the lock", l.check(ctx))
}

// Health returns nil, or what is wrong with the database now and since when. While [DB.Run] is at
// work, it reports within 2 s that the database does not answer. It does not block. Errors:
// ErrFenced, ErrNotOpen, ErrFile, ErrSilent, and those of the database.
func (db *DB) Health() error {
	if db.fenced.Load() {
		return fmt.Errorf("%w: this process must be restarted once the other one is gone", ErrFenced)
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

// ask notes that the database was asked.
func (g *signs) ask(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = now
}

// answer notes that the database has answered.
func (g *signs) answer(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = time.Time{}
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

// repaired notes what was repaired.
func (g *signs) repaired(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stats.Repairs++
	g.stats.LastRepair = what
}
