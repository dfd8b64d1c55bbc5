package jobs

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// OutboxRow is a row of the table holter_outbox: a job that an application has written in a transaction of
// its own. The table is in databases on servers only, see [Store.HasOutbox].
type OutboxRow struct {
	ID              uint64
	Name            string
	Queue, Endpoint string // empty if left out
	URL             string
	Body            []byte // nil if left out, and if it is longer than MaxBody
	Size            int64  // of the body in bytes
	Key             string // ordering key
	Unique          string // idempotency key
	Priority        string // high, normal or low; empty for normal
	RunAt, Deadline time.Time
	Created         time.Time
	Error           string // why it is no job; empty if nobody has looked at it
}

// MaxBody is the maximum size of the body of a job in bytes.
const MaxBody = 1 << 20

// ErrLater is returned by the function of [Store.TakeRows] for a row that has to wait.
var ErrLater = errors.New("jobs: the row has to wait")

// TakenRows is the result of [Store.TakeRows].
type TakenRows struct {
	Jobs    int         // rows that became jobs, or whose idempotency key a job had
	Refused []OutboxRow // those that cannot be jobs
	Waiting int         // those that have to wait
	More    bool        // the scan is not at its end
}

// RowScan is where one pass over the rows of applications has come to. The zero RowScan is a new one.
type RowScan struct {
	last    uint64
	left    int               // rows that stay for now
	waiting map[rowPlace]bool // where they are kept in order
}

const (
	// outboxChannel is the channel of PostgreSQL on which inserts into the table are notified.
	outboxChannel = "holter_outbox"
	// rowsPerStep is how many rows one transaction takes.
	rowsPerStep = 200
	// maxLeft is how many rows that have to wait a scan passes by, at least.
	maxLeft = 2000
	// maxRowError is the maximum length of the error of a row in bytes.
	maxRowError = 500
)

// HasOutbox reports whether the database has the table holter_outbox: a database in a file has none, since
// the transactions of applications would hold up those of the server.
func (s *Store) HasOutbox() bool { return !s.db.InFile() }

// ListenRows calls heard when applications may have written rows, as [sqldb.DB.Listen] does.
func (s *Store) ListenRows(ctx context.Context, heard func()) error {
	return s.db.Listen(ctx, outboxChannel, heard)
}

// TakeRows makes jobs of the next rows of applications in a scan and deletes the rows, in one transaction. Rows
// that name one of some queues are left out. specOf returns the job of a row, [ErrLater] for one that is to
// stay, or why the row can be no job; then it stays with that error, and is not looked at again. specOf must
// not block.
//
// Rows are taken in the order of their numbers. A row that another program has locked is left for a later
// scan, and so are those behind a row that is left, with its name and its ordering key. A scan ends at 2,000
// rows that are left: those behind them wait, too. After an error a scan may be continued.
func (s *Store) TakeRows(ctx context.Context, scan *RowScan, without []string, specOf func(*OutboxRow) (Spec, error)) (TakenRows, error) {
	found, more, err := s.findRows(ctx, scan.last, without)
	if err != nil || len(found) == 0 {
		return TakenRows{}, err
	}
	var t taking
	var counts map[Lane]int64
	err = s.change(ctx, "take the rows of applications", func(ctx context.Context, tx sqldb.Tx) (_ map[Lane]int64, err error) {
		t = taking{specOf: specOf, waiting: maps.Clone(scan.waiting)}
		if err = t.read(ctx, tx, found); err != nil {
			return nil, err
		}
		counts, err = t.finish(ctx, s, tx)
		return counts, err
	})
	if err != nil {
		return TakenRows{}, err
	}
	s.wake(lanesOf(counts)...)
	scan.last, scan.waiting, scan.left = found[len(found)-1].id, t.waiting, scan.left+t.left
	return TakenRows{Jobs: len(t.specs), Refused: t.refused, Waiting: t.left, More: more && scan.left < maxLeft}, nil
}

// foundRow is what is known of a row before it is locked.
type foundRow struct {
	id    uint64
	place rowPlace
}

// rowPlace is where a row is kept in order.
type rowPlace struct{ name, queue, endpoint, key string }

// findRows returns the next rows after a number, so many that their bodies fit into one transaction.
func (s *Store) findRows(ctx context.Context, after uint64, without []string) (found []foundRow, more bool, err error) {
	where, args := "error IS NULL AND id > ?", []any{MaxBody, after}
	if len(without) > 0 {
		where, args = where+" AND COALESCE(queue, '') NOT IN (?)", append(args, without)
	}
	err = s.db.Read(ctx, "find rows of applications", func(ctx context.Context, q sqldb.Reader) error {
		found, more = nil, false
		size := int64(0)
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var r foundRow
			var n int64
			if err := rows.Scan(&r.id, &r.place.name, &r.place.queue, &r.place.endpoint, &r.place.key, &n); err != nil {
				return err
			}
			if size += n; len(found) == rowsPerStep || len(found) > 0 && size > maxData {
				more = true
			}
			if !more {
				found = append(found, r)
			}
			return nil
		}, "SELECT id, "+placeColumns+", CASE WHEN OCTET_LENGTH(body) <= ? THEN OCTET_LENGTH(body) ELSE 0 END"+
			" FROM holter_outbox WHERE "+where+" ORDER BY id LIMIT ?", append(args, rowsPerStep+1)...)
	})
	return found, more, err
}

// placeColumns are the columns of a rowPlace. Longer values than these are wrong anyway.
const placeColumns = "COALESCE(LEFT(name, 256), ''), COALESCE(LEFT(queue, 256), ''), COALESCE(LEFT(endpoint, 256), ''), COALESCE(LEFT(ordering_key, 256), '')"

// rowColumns are the columns that OutboxRow.scan scans, without the body.
const rowColumns = "id, " + placeColumns + ", COALESCE(LEFT(url, 4096), ''), COALESCE(OCTET_LENGTH(body), 0), COALESCE(LEFT(idempotency_key, 256), ''), COALESCE(LEFT(priority, 256), '')," +
	" run_at, deadline, created, COALESCE(error, '')"

// scan scans rowColumns, and others after them.
func (r *OutboxRow) scan(rows *sql.Rows, others ...any) error {
	var runAt, deadline sql.NullTime
	err := rows.Scan(append([]any{
		&r.ID, &r.Name, &r.Queue, &r.Endpoint, &r.Key, &r.URL, &r.Size, &r.Unique, &r.Priority, &runAt, &deadline, &r.Created, &r.Error,
	}, others...)...)
	r.RunAt, r.Deadline = runAt.Time, deadline.Time
	return err
}

func (r *OutboxRow) place() rowPlace { return rowPlace{r.Name, r.Queue, r.Endpoint, r.Key} }

// taking is one call of TakeRows.
type taking struct {
	specOf  func(*OutboxRow) (Spec, error)
	specs   []Spec
	done    []uint64 // rows of specs
	refused []OutboxRow
	left    int // that stay for now
	waiting map[rowPlace]bool
}

// read locks rows, as far as nobody else has, and decides what becomes of them. It does not wait for a lock:
// an application must not hold up the writing of events.
func (t *taking) read(ctx context.Context, tx sqldb.Tx, found []foundRow) error {
	ids := make([]uint64, len(found))
	for i := range found {
		ids[i] = found[i].id
	}
	only := ""
	if tx.MySQL() { // a scan of the table would lock the place where applications insert
		only = " FORCE INDEX (PRIMARY)"
	}
	locked := make(map[uint64]*OutboxRow)
	err := sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
		r := &OutboxRow{}
		err := r.scan(rows, &r.Body)
		locked[r.ID] = r
		return err
	}, "SELECT "+rowColumns+", CASE WHEN OCTET_LENGTH(body) <= ? THEN body END FROM holter_outbox"+only+" WHERE id IN (?) FOR UPDATE SKIP LOCKED",
		MaxBody, sqldb.Ints(ids))
	if err != nil {
		return err
	}
	for i := range found {
		row, place := locked[found[i].id], found[i].place
		switch {
		case row == nil || row.Key != "" && t.waiting[row.place()]: // another program changes or has deleted it; or it is behind such a one
			t.leave(place)
		case row.Error == "":
			t.decide(row)
		}
	}
	return nil
}

// leave leaves a row for a later scan.
func (t *taking) leave(place rowPlace) {
	t.left++
	if place.key == "" {
		return
	}
	if t.waiting == nil {
		t.waiting = make(map[rowPlace]bool)
	}
	t.waiting[place] = true
}

func (t *taking) decide(row *OutboxRow) {
	spec, err := t.specOf(row)
	switch {
	case err == nil:
		t.specs, t.done = append(t.specs, spec), append(t.done, row.ID)
	case errors.Is(err, ErrLater):
		t.leave(row.place())
	default:
		row.Error, row.Body = sqldb.Text(err.Error(), maxRowError), nil
		t.refused = append(t.refused, *row)
	}
}

// finish makes the jobs, deletes their rows, and writes the errors of the refused ones.
func (t *taking) finish(ctx context.Context, s *Store, tx sqldb.Tx) (counts map[Lane]int64, err error) {
	if len(t.specs) > 0 {
		if counts, err = s.enqueueRouted(ctx, tx, t.specs, make([]uint64, len(t.specs))); err != nil {
			return nil, err
		}
		// One by one: for many, MariaDB may look at the whole table, and wait for rows that are not committed.
		err = tx.Repeat(ctx, "DELETE FROM holter_outbox WHERE id = ?", len(t.done), func(args []any, i int) []any { return append(args, int64(t.done[i])) })
		if err != nil {
			return nil, err
		}
	}
	return counts, tx.Repeat(ctx, "UPDATE holter_outbox SET error = ? WHERE id = ?", len(t.refused), func(args []any, i int) []any {
		return append(args, t.refused[i].Error, int64(t.refused[i].ID))
	})
}

// RefusedRows returns up to limit rows after a number that can be no jobs, by number, without their bodies.
// None if the database has no such table.
func (s *Store) RefusedRows(ctx context.Context, after uint64, limit int) (refused []OutboxRow, err error) {
	if !s.HasOutbox() {
		return nil, nil
	}
	err = s.db.Read(ctx, "read refused rows of applications", func(ctx context.Context, q sqldb.Reader) error {
		refused = nil
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var r OutboxRow
			err := r.scan(rows)
			refused = append(refused, r)
			return err
		}, "SELECT "+rowColumns+" FROM holter_outbox WHERE error IS NOT NULL AND id > ? ORDER BY id LIMIT ?", after, limit)
	})
	return refused, err
}
