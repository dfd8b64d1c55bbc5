package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/uptrace/bun"
)

// Tx is a transaction that writes.
type Tx struct {
	bun.Tx

	db     *DB
	passed *bool // the fence was checked
}

// errUnfenced is returned for a transaction that would be committed without the fence.
var errUnfenced = errors.New("sqldb: a transaction did not pass the fence")

// Write runs do in a transaction that has passed the fence, and commits it if do returns nil. Such
// transactions take turns, and one waits for its turn as long as a transaction may take at most
// ([Config].Patience). op is the operation that errors name. If the commit fails, Write
// waits as long again for the database to say whether it has committed; only if it cannot, an error may be
// about what was done all the same. Errors: ErrNotOpen, ErrFenced, errors of do that have a kind (package
// errkind) as they are, all others as an [*Error].
func (db *DB) Write(ctx context.Context, op string, do func(ctx context.Context, tx Tx) error) error {
	if err := db.takeTurn(ctx); err != nil {
		return db.wrap(op, err)
	}
	defer func() { <-db.turns }()
	mark := rand.Int64()
	err := db.WriteLate(ctx, op, func(ctx context.Context, tx Tx) error {
		if err := tx.Fence(ctx, "last_write = ?", mark); err != nil {
			return err
		}
		return do(ctx, tx)
	})
	if _, commit := errors.AsType[commitError](err); commit {
		return db.settle(ctx, op, mark, err)
	}
	return err
}

// takeTurn waits until no other transaction of Write is under way. A turn that is free can be had even
// when ctx is done.
func (db *DB) takeTurn(ctx context.Context) error {
	select {
	case db.turns <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, db.config.Patience)
	defer cancel()
	select {
	case db.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WriteLate is Write for a do that passes the fence itself, with [Tx.Fence] or [Tx.FenceIf]. It does
// not wait for its turn. The rows that do changes before the fence must be such as no other
// transaction changes, else two transactions may wait for each other.
func (db *DB) WriteLate(ctx context.Context, op string, do func(ctx context.Context, tx Tx) error) error {
	if err := db.tenure.Load().err(); err != nil {
		return err
	}
	db.state.RLock()
	c, l := db.conns, db.lock
	db.state.RUnlock()
	if c == nil || l == nil {
		return ErrNotOpen
	}
	return db.wrap(op, c.transact(ctx, func(ctx context.Context, btx bun.Tx) error {
		tx := Tx{Tx: btx, db: db, passed: new(bool)}
		if err := do(ctx, tx); err != nil {
			return err
		}
		if !*tx.passed {
			return errUnfenced
		}
		return nil
	}))
}

// WriteShared runs do in a transaction without the fence, for rows that several processes may write
// at the same time, such as tokens. It also works after [OpenShared]. Errors as those of Write,
// but for ErrFenced.
func (db *DB) WriteShared(ctx context.Context, op string, do func(ctx context.Context, tx Tx) error) error {
	c := db.current()
	if c == nil {
		return ErrNotOpen
	}
	return db.wrap(op, c.transact(ctx, func(ctx context.Context, tx bun.Tx) error {
		return do(ctx, Tx{Tx: tx, db: db, passed: new(bool)})
	}))
}

// Read runs queries that change nothing. It calls do again if a connection turns out to be lost, as
// all are after a restart of the server; so do begins with empty results. Errors as those of Write,
// but for ErrFenced.
func (db *DB) Read(ctx context.Context, op string, do func(ctx context.Context, q *bun.DB) error) error {
	c := db.current()
	if c == nil {
		return ErrNotOpen
	}
	return db.wrap(op, c.reading(ctx, do))
}

// Fence passes the fence, and sets columns of the row of meta along with that. From here on the
// transaction holds that row. Errors: ErrFenced.
func (tx Tx) Fence(ctx context.Context, set string, args ...any) error {
	_, err := tx.FenceIf(ctx, set, "", args...)
	return err
}

// FenceIf is Fence that sets the columns only under a condition, and reports whether it holds. The
// arguments are those of set, then those of the condition.
func (tx Tx) FenceIf(ctx context.Context, set, condition string, args ...any) (held bool, err error) {
	query := "UPDATE meta SET " + set + " WHERE "
	if condition != "" {
		query += condition + " AND "
	}
	t := tx.db.tenure.Load()
	changed, err := Changed(tx.NewRaw(query+"id = 1 AND fence = ? AND nonce = ?", append(args, t.term, t.nonce)...).Exec(ctx))
	if err != nil {
		return false, err
	}
	ours := changed
	if changed == 0 && condition != "" {
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM meta WHERE id = 1 AND fence = ? AND nonce = ?", t.term, t.nonce).Scan(&ours); err != nil {
			return false, err
		}
	}
	if ours == 0 {
		t.end(fmt.Errorf("%w; this one changes nothing any more", ErrFenced))
		return false, t.err()
	}
	*tx.passed = changed > 0
	return changed > 0, nil
}

// Upsert returns the end of an INSERT that, for a row whose key is there already, overwrites columns
// instead. It stands after VALUES.
func (tx Tx) Upsert(key string, columns ...string) string {
	return tx.db.backend.upsert(key, columns...)
}

// Bind returns a query with the placeholders of the database's driver in the place of each ?. Use it
// for queries that go to [sql.Tx] directly. The query must not have a ? for anything else.
func (tx Tx) Bind(query string) string { return bind(tx.db.backend, query) }

func bind(b backend, query string) string {
	if _, ok := b.(*postgresDB); !ok {
		return query
	}
	var out strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteByte('$')
		out.WriteString(strconv.Itoa(n))
		query = after
	}
}

// Repeat runs a prepared statement n times. args appends the arguments of the i-th time.
func (tx Tx) Repeat(ctx context.Context, query string, n int, args func(args []any, i int) []any) error {
	return repeat(ctx, tx.Tx.Tx, tx.Bind(query), n, args)
}

func repeat(ctx context.Context, tx *sql.Tx, query string, n int, args func(args []any, i int) []any) error {
	if n == 0 {
		return nil
	}
	stmt, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	var row []any
	for i := range n {
		row = args(row[:0], i)
		if _, err = stmt.ExecContext(ctx, row...); err != nil {
			break
		}
	}
	return errors.Join(err, stmt.Close())
}

// Querier is a [bun.DB] or a [Tx].
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Each runs a query and calls scan for each row.
func Each(ctx context.Context, q Querier, scan func(rows *sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		err = scan(rows)
	}
	return cmp.Or(err, rows.Err(), rows.Close())
}

// Changed returns how many rows a statement changed. Its arguments are what Exec returns.
func Changed(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
