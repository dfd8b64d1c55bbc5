package sqldb

import (
	"context"
	"database/sql"
	"time"

	"github.com/pressly/goose/v3"
)

// idleLimit is how long a transaction may stand still until a server ends it. What a process that was cut
// off in the middle of one has locked is free when another one has its lease.
const idleLimit = 5 * time.Second

// backend is what the three kinds of databases do differently.
type backend interface {
	// place returns a description of where the database is, without a password.
	place() string
	dialect() goose.Dialect
	// prepare makes what must be there before pools is called.
	prepare() error
	// pools opens connections, lazily: one pool for those who write, one for those who read.
	pools() (write, read *sql.DB)
	// leasePool opens a pool of one connection, lazily, for the lease of a server; nil for a file.
	leasePool() *sql.DB
	// insert inserts n rows, see [Tx.Insert].
	insert(ctx context.Context, tx *sql.Tx, t *Table, n int, row func(args []any, i int) []any) error
	// remove deletes rows by n keys, see [Tx.Delete].
	remove(ctx context.Context, tx *sql.Tx, t *Table, n int, key func(args []any, i int) []any) error
	// upsert returns the end of an INSERT that overwrites the columns of a row whose key exists.
	upsert(key string, columns ...string) string
	// clock returns an expression for the Unix time in microseconds that the database's clock shows when
	// it is evaluated, not when its statement began.
	clock() string
	// largest returns how many bytes a value that is inserted may have in any case.
	largest(ctx context.Context, q Querier) (int64, error)
	// catalogue returns a query for all tables: name of the table, of the column, its type, and its place in
	// the primary key if that is known, else 0.
	catalogue() string
	// readPool opens a pool for connections that only read.
	readPool() *sql.DB
	// snapshot returns the statements that begin a transaction which sees the database as it is at one
	// instant, however long it takes.
	snapshot() []string
	// size returns how many bytes the database has, 0 if that is not known.
	size() int64
}

// gigabyte is what a value may have, roughly, in SQLite and PostgreSQL.
const gigabyte = 1_000_000_000

// lock keeps other processes from opening the database: a lock on a file, or the lease of a server.
type lock interface {
	// check returns an error if it is not ours any more, as far as that is known.
	check(ctx context.Context) error
	release() error
}
