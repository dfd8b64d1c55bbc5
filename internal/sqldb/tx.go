package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
)

// Tx is a transaction that writes.
type Tx struct {
	Reader

	tx     *sql.Tx
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
	return db.wrap(op, c.transact(ctx, func(ctx context.Context, tx Tx) error {
		tx.db, tx.passed = db, new(bool)
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
	return db.wrap(op, c.transact(ctx, func(ctx context.Context, tx Tx) error {
		tx.db, tx.passed = db, new(bool)
		return do(ctx, tx)
	}))
}

// Read runs queries that change nothing. It calls do again if a connection turns out to be lost, as
// all are after a restart of the server; so do begins with empty results. Errors as those of Write,
// but for ErrFenced.
func (db *DB) Read(ctx context.Context, op string, do func(ctx context.Context, q Reader) error) error {
	c := db.current()
	if c == nil {
		return ErrNotOpen
	}
	return db.wrap(op, c.reading(ctx, do))
}

// ReadRow is Read for a query, the first row of which it scans into fields.
func (db *DB) ReadRow(ctx context.Context, op string, fields []any, query string, args ...any) error {
	return db.Read(ctx, op, func(ctx context.Context, q Reader) error {
		return q.QueryRowContext(ctx, query, args...).Scan(fields...)
	})
}

// ReadTx is Read in one transaction: a file and MariaDB or MySQL show it the rows of one instant.
func (db *DB) ReadTx(ctx context.Context, op string, do func(ctx context.Context, q Reader) error) error {
	return db.Read(ctx, op, func(ctx context.Context, q Reader) error {
		tx, err := q.on.(*sql.DB).BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // it has changed nothing
		return do(ctx, Reader{backend: q.backend, on: tx})
	})
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
	changed, err := tx.Exec(ctx, query+"id = 1 AND fence = ? AND nonce = ?", append(args, t.term, t.nonce)...)
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
	return tx.backend.upsert(key, columns...)
}

// Exec runs a statement, see [Reader], and returns how many rows it changed.
func (tx Tx) Exec(ctx context.Context, query string, args ...any) (changed int64, err error) {
	return exec(ctx, tx.backend, tx.tx, query, args...)
}

// Repeat runs a prepared statement n times. args appends the arguments of the i-th time.
func (tx Tx) Repeat(ctx context.Context, query string, n int, args func(args []any, i int) []any) error {
	return repeat(ctx, tx.tx, tx.backend, query, n, args)
}

func repeat(ctx context.Context, tx *sql.Tx, b backend, query string, n int, args func(args []any, i int) []any) error {
	if n == 0 {
		return nil
	}
	query, _ = bind(b, query, nil)
	stmt, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	var row []any
	for i := range n {
		row = args(row[:0], i)
		for k := range row {
			row[k] = plain(row[k])
		}
		if _, err = stmt.ExecContext(ctx, row...); err != nil {
			break
		}
	}
	return errors.Join(err, stmt.Close())
}
