package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Move moves a fleet from one database to another. Most of its events are copied while a server is at work;
// then that server has to end, the rest is copied, and the old database is marked, so that nobody opens it
// any more. A Move that ends early, be it by a kill, is continued by another one: until it has come to its
// end, at most one of the two databases can be opened.
type Move struct {
	From, To sqldb.Config
	Tell     Progress          // nil for nobody
	Say      func(text string) // what happens, for people
}

// Moved is how a Move went.
type Moved struct {
	Fleet   string
	Before  bool          // it was moved there before, and nothing was done
	Rows    int64         // that were copied and compared in the end, without the events
	Events  uint64        // the offset of the latest
	Stopped time.Duration // from when nobody could write until the new database was complete
}

// Run moves the fleet. It waits for the server that is at work on it to end. Errors: [sqldb.ErrMoved] if it
// was moved elsewhere; those of [sqldb.DB.Open] and [sqldb.DB.Fill].
func (m *Move) Run(ctx context.Context) (moved Moved, err error) {
	m.From.Moved, m.From.Node = true, "migrate"
	m.From.Terms = new(sqldb.Terms)
	from, to, err := m.databases()
	if err != nil {
		return moved, err
	}
	kept, err := from.Kept(ctx)
	switch {
	case err != nil:
		return moved, err
	case kept.Fleet == "":
		return moved, fmt.Errorf("%w: %s", sqldb.ErrNoFleet, from.Place())
	case kept.Mark != nil && (kept.Mark.Filling || kept.Mark.Other != to.Place()):
		return moved, kept.Mark.Err(from.Place())
	}
	if kept.Mark != nil {
		if there, err := to.Kept(ctx); err != nil {
			return moved, err
		} else if there.Fleet == kept.Fleet && there.Mark == nil {
			return Moved{Fleet: kept.Fleet, Before: true}, nil
		}
	}
	version, err := bringUp(ctx, m.From)
	if err != nil {
		return moved, err
	}
	target, err := to.Fill(ctx, sqldb.Filling{Fleet: kept.Fleet, From: from.Place(), Version: version})
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := m.ahead(ctx, from, target); err != nil {
		return moved, err
	}
	return m.rest(ctx, from, to, target)
}

func (m *Move) databases() (from, to *sqldb.DB, err error) {
	from, err = sqldb.New(m.From)
	if err != nil {
		return nil, nil, fmt.Errorf("from: %w", err)
	}
	if to, err = sqldb.New(m.To); err != nil {
		return nil, nil, fmt.Errorf("to: %w", err)
	}
	if from.Place() == to.Place() {
		return nil, nil, fmt.Errorf("both are %s", from.Place())
	}
	return from, to, nil
}

// bringUp brings the schema of the source up to date, and returns its version: the server that has to end
// then writes what is copied. Errors: [sqldb.ErrLocked] if an older one is at work.
func bringUp(ctx context.Context, cfg sqldb.Config) (version int64, err error) {
	db, err := sqldb.OpenShared(ctx, cfg)
	if err != nil {
		return 0, err
	}
	if err := db.Close(); err != nil {
		return 0, err
	}
	err = db.Snapshot(ctx, func(_ context.Context, s *sqldb.Snapshot) error {
		version = s.Version
		return nil
	})
	return version, err
}

// lockedEvery is how often it is tried whether the server has ended.
const lockedEvery = 200 * time.Millisecond

// open opens the source once nobody is at work on it.
func (m *Move) open(ctx context.Context, from *sqldb.DB) error {
	for said := false; ; {
		err := from.Open(ctx)
		if !errors.Is(err, sqldb.ErrLocked) {
			return err
		}
		if !said {
			m.Say("most is copied; stop the server now, and all that stand by (" + err.Error() + ")")
			said = true
		}
		select {
		case <-time.After(lockedEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// rest copies what is left, once the server has ended, and makes the target the database of the fleet.
func (m *Move) rest(ctx context.Context, from, to *sqldb.DB, target *sqldb.Target) (moved Moved, err error) {
	if err := m.open(ctx, from); err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	m.Say("the database is free; the rest is copied")
	began := time.Now()
	moved.Fleet = from.ID()
	err = from.Snapshot(ctx, func(ctx context.Context, s *sqldb.Snapshot) (err error) {
		if err := outboxFits(ctx, s, to); err != nil {
			return err
		}
		if moved.Events, err = m.lastEvents(ctx, s, target); err != nil {
			return err
		}
		moved.Rows, err = m.replace(ctx, s, target, func(table string) bool { return table != eventsTable })
		return err
	})
	if err != nil {
		return moved, err
	}
	if err := from.MoveAway(ctx, to.Place()); err != nil {
		return moved, err
	}
	m.Say("all is copied and compared, and the old database is marked")
	err = from.Snapshot(ctx, func(ctx context.Context, s *sqldb.Snapshot) error {
		_, err := m.replace(ctx, s, target, sharedTable)
		return err
	})
	if err != nil {
		return moved, err
	}
	err = target.Finish(ctx, from.Fence(), false)
	moved.Stopped = time.Since(began)
	return moved, err
}

// sharedTable reports whether others than the server write to a table: they may have done so until the mark
// was made.
func sharedTable(table string) bool { return table == "tokens" || table == outboxTable }

// outboxTable has what applications write, on servers only.
const outboxTable = "holter_outbox"

// outboxFits returns an error if jobs of applications would be left in a file, where nobody takes them.
func outboxFits(ctx context.Context, s *sqldb.Snapshot, to *sqldb.DB) error {
	if !to.InFile() || s.Table(outboxTable) == nil {
		return nil
	}
	n := 0
	if err := s.Scan(ctx, "SELECT COUNT(*) FROM "+outboxTable, &n); err != nil || n == 0 {
		return err
	}
	return fmt.Errorf("the table %s has %d rows of applications, and a database in a file has no such table; "+
		"start the server once so that it takes them, and delete those with an error", outboxTable, n)
}

// replace copies tables as a whole, and compares them.
func (m *Move) replace(ctx context.Context, s *sqldb.Snapshot, target *sqldb.Target, want func(table string) bool) (rows int64, err error) {
	c := copier{from: s, to: target, tell: m.Tell}
	sums := map[string]Sum{}
	for i := range s.Tables {
		t := &s.Tables[i]
		if skipped(t.Name) || !want(t.Name) {
			continue
		}
		if sums[t.Name], err = c.whole(ctx, t); err != nil {
			return rows, err
		}
		rows += sums[t.Name].Rows
	}
	return rows, compare(ctx, target, sums)
}
