package sqldb

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3"
	"github.com/uptrace/bun/schema"
)

// backend is what the three kinds of databases do differently.
type backend interface {
	// place returns a description of where the database is, without a password.
	place() string
	dialect() (goose.Dialect, schema.Dialect)
	// prepare makes what must be there before pools is called.
	prepare() error
	// pools opens connections, lazily: one pool for those who write, one for those who read.
	pools() (write, read *sql.DB)
	// lock takes the lock that keeps a second writer out, or fails with ErrLocked.
	lock(ctx context.Context) (lock, error)
	// insert inserts n rows, see [Tx.Insert].
	insert(ctx context.Context, tx *sql.Tx, t *Table, n int, row func(args []any, i int) []any) error
	// upsert returns the end of an INSERT that overwrites the columns of a row whose key exists.
	upsert(key string, columns ...string) string
	// clock returns a query for the Unix time in microseconds that the database's clock shows.
	clock() string
	// size returns how many bytes the database has, 0 if that is not known.
	size() int64
}

// lock is a lock that was taken.
type lock interface {
	// check makes sure that it is still held, and takes it again if it was lost and nobody else has it.
	check(ctx context.Context) error
	release() error
}
