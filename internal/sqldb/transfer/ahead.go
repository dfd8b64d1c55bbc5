package transfer

import (
	"context"
	"fmt"

	"github.com/holter-iot/holter/internal/sqldb"
)

// eventsTable is the table that only grows at its end and shrinks at its beginning, so most of it can be copied
// while a server is at work.
const eventsTable = "events"

const (
	// aheadRows is how many events are copied from one snapshot: the log of a file cannot be reused meanwhile.
	aheadRows = 500_000
	// fewRows is how many events may be left for when the server has ended.
	fewRows = 20_000
)

// ahead copies events until few are left, and compares them.
func (m *Move) ahead(ctx context.Context, from *sqldb.DB, target *sqldb.Target) error {
	for fresh := false; ; fresh = true {
		for {
			n, err := m.someEvents(ctx, from, target)
			if err != nil {
				return err
			}
			if n < fewRows {
				break
			}
		}
		same, err := m.sameEvents(ctx, from, target)
		if err != nil || same {
			return err
		}
		if fresh {
			return fmt.Errorf("%w: the events", ErrDamaged)
		}
		// The source may have lost some since, or what was copied before a loss of power.
		if err := target.Delete(ctx, eventsTable, ""); err != nil {
			return err
		}
	}
}

// someEvents copies the next events that the target does not have.
func (m *Move) someEvents(ctx context.Context, from *sqldb.DB, target *sqldb.Target) (n int64, err error) {
	err = from.Snapshot(ctx, func(ctx context.Context, s *sqldb.Snapshot) error {
		last, err := lastEvent(ctx, target)
		if err != nil {
			return err
		}
		c := copier{from: s, to: target, tell: m.Tell}
		sum, err := c.table(ctx, s.Table(eventsTable), fmt.Sprintf("pos > %d AND pos <= %d", last, c.begin(ctx, last)+aheadRows))
		n = sum.Rows
		return err
	})
	return n, err
}

// begin returns the offset after which there are events, at least last.
func (c *copier) begin(ctx context.Context, last int64) int64 {
	var oldest int64
	if err := c.from.Scan(ctx, "SELECT oldest FROM meta WHERE id = 1", &oldest); err != nil {
		return last // the copying fails, too
	}
	return max(last, oldest-1)
}

// lastEvent returns the offset of the latest event of a target.
func lastEvent(ctx context.Context, target *sqldb.Target) (last int64, err error) {
	err = target.Scan(ctx, "SELECT COALESCE(MAX(pos), 0) FROM "+eventsTable, &last)
	return last, err
}

// sameEvents reports whether the events that were copied are those that the source has. Those that it has deleted
// since do not count.
func (m *Move) sameEvents(ctx context.Context, from *sqldb.DB, target *sqldb.Target) (same bool, err error) {
	last, err := lastEvent(ctx, target)
	if err != nil {
		return false, err
	}
	var read, written Sum
	where := ""
	err = from.Snapshot(ctx, func(ctx context.Context, s *sqldb.Snapshot) (err error) {
		var oldest int64
		if err := s.Scan(ctx, "SELECT oldest FROM meta WHERE id = 1", &oldest); err != nil {
			return err
		}
		where = fmt.Sprintf("pos >= %d AND pos <= %d", oldest, last)
		read, err = sumOf(ctx, s, s.Table(eventsTable), where)
		return err
	})
	if err != nil {
		return false, err
	}
	err = target.Snapshot(ctx, func(ctx context.Context, s *sqldb.Snapshot) (err error) {
		written, err = sumOf(ctx, s, s.Table(eventsTable), where)
		return err
	})
	return read == written, err
}

// lastEvents copies the rest of the events, and returns the offset of the latest. It compares all by what the databases
// can count; those that are copied here are compared one by one.
func (m *Move) lastEvents(ctx context.Context, s *sqldb.Snapshot, target *sqldb.Target) (latest uint64, err error) {
	last, err := lastEvent(ctx, target)
	if err != nil {
		return 0, err
	}
	var oldest int64
	if err := s.Scan(ctx, "SELECT oldest, last_offset FROM meta WHERE id = 1", &oldest, &latest); err != nil {
		return 0, err
	}
	c := copier{from: s, to: target, tell: m.Tell}
	read, err := c.table(ctx, s.Table(eventsTable), fmt.Sprintf("pos > %d", last))
	if err != nil {
		return 0, err
	}
	if err := target.Delete(ctx, eventsTable, fmt.Sprintf("pos < %d", oldest)); err != nil {
		return 0, err
	}
	return latest, target.Snapshot(ctx, func(ctx context.Context, to *sqldb.Snapshot) error {
		written, err := sumOf(ctx, to, to.Table(eventsTable), fmt.Sprintf("pos > %d", last))
		if err != nil {
			return err
		}
		if err := differs(eventsTable, read, written); err != nil {
			return err
		}
		was, err := countEvents(ctx, s)
		if err != nil {
			return err
		}
		is, err := countEvents(ctx, to)
		if err == nil && was != is {
			err = fmt.Errorf("%w: of the events there are %v, want %v; run it again", ErrDamaged, is, was)
		}
		return err
	})
}

// eventCount is what a database can quickly say of all events.
type eventCount struct{ rows, first, last, seqs int64 }

func countEvents(ctx context.Context, s *sqldb.Snapshot) (c eventCount, err error) {
	err = s.Scan(ctx, "SELECT COUNT(*), COALESCE(MIN(pos), 0), COALESCE(MAX(pos), 0), COALESCE(SUM(seq % 1000000), 0) FROM "+eventsTable,
		&c.rows, &c.first, &c.last, &c.seqs)
	return c, err
}
