package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// backend is what the three databases do differently.
type backend interface {
	// place says where the database is, for people, without a password.
	place() string
	dialect() (goose.Dialect, schema.Dialect)
	// pools opens connections, lazily: one pool for those who write, one for those who read. prepare is called before.
	prepare() error
	pools() (write, read *sql.DB)
	// lock takes the lock that keeps a second writer out, or fails with ErrLocked.
	lock(ctx context.Context) (lock, error)

	// The statements of an append. Rows of states are ordered by number.
	insertDevices(ctx context.Context, tx *sql.Tx, rows []stateRow) error
	putStates(ctx context.Context, tx *sql.Tx, rows []stateRow) error
	insertEvents(ctx context.Context, tx *sql.Tx, rows []eventRow) error
	insertJobs(ctx context.Context, tx *sql.Tx, rows []jobRow) error
	// upsert returns the end of an INSERT that overwrites the columns of a row whose key exists. VALUES come before it.
	upsert(key string, columns ...string) string
	// size returns how many bytes the database has, 0 if that is not known.
	size() int64
	// bindVar returns the n-th placeholder, from 1.
	bindVar(n int) string
}

// lock is a lock that was taken.
type lock interface {
	// check makes sure that it is still held, and takes it again if it was lost and nobody else has it.
	check(ctx context.Context) error
	release() error
}

// patience is how long a database may take for a transaction, beyond which the server counts as hung.
const patience = 30 * time.Second

// database is a backend and its connections.
type database struct {
	backend

	patience time.Duration
	write    *bun.DB
	read     *bun.DB
	guard    *guard       // of a database in a file, once a store has opened it
	waiting  atomic.Int64 // since when a transaction in a file waits for other programs to let it begin, Unix time in ns; 0 if none does
}

func openDatabase(b backend, timeout time.Duration) (*database, error) {
	if err := b.prepare(); err != nil {
		return nil, err
	}
	return connect(b, timeout), nil
}

// connect is openDatabase for one that is there.
func connect(b backend, timeout time.Duration) *database {
	write, read := b.pools()
	_, dialect := b.dialect()
	return &database{backend: b, patience: timeout, write: bun.NewDB(write, dialect), read: bun.NewDB(read, dialect)}
}

func (d *database) close() error {
	_ = d.read.Close() // nothing was written over it
	return errors.Join(d.write.Close(), d.guard.close())
}

// limit returns ctx with the time that a transaction may take.
func (d *database) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := d.backend.(*sqliteDB); ok { // interrupted in a commit, SQLite would not say whether it was one; and it does not hang
		return context.WithoutCancel(ctx), func() {}
	}
	return context.WithTimeout(ctx, d.patience)
}

// transact runs a transaction. If it fails, the connection is given up: the next one finds the truth in the database.
func (d *database) transact(ctx context.Context, do func(ctx context.Context, tx bun.Tx) error) (err error) {
	if err := d.guard.check(); err != nil {
		return err
	}
	ctx, cancel := d.limit(ctx)
	defer cancel()
	conn, tx, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			discard(conn.Conn)
		}
		_ = conn.Close() // gives it back
	}()
	defer func() { _ = tx.Tx.Rollback() }() // does nothing after the commit
	if err := do(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return d.guard.check() // what went into a file that is not there any more was not written
}

// begin begins a transaction, on another connection if one turns out to be lost.
func (d *database) begin(ctx context.Context) (bun.Conn, bun.Tx, error) {
	for tries := 0; ; tries++ {
		conn, err := d.write.Conn(ctx)
		if err != nil {
			return bun.Conn{}, bun.Tx{}, err
		}
		tx, err := d.beginOn(ctx, conn)
		if err == nil {
			return conn, tx, nil
		}
		discard(conn.Conn)
		_ = conn.Close() // it was given up
		if tries == connections || ctx.Err() != nil || !lost(err) {
			return bun.Conn{}, bun.Tx{}, err
		}
	}
}

// beginOn begins a transaction on a connection. There is only one that writes to a file, so only one waits.
func (d *database) beginOn(ctx context.Context, conn bun.Conn) (bun.Tx, error) {
	if _, ok := d.backend.(*sqliteDB); ok {
		d.waiting.Store(time.Now().UnixNano())
		defer d.waiting.Store(0)
	}
	return conn.BeginTx(ctx, nil)
}

// lost says whether an error is about a connection that ended.
func lost(err error) bool {
	cause := causeOf(err, "")
	return cause == causeLost || cause == causeShutdown
}

// each runs a query and scans each of its rows.
func each(ctx context.Context, db *bun.DB, scan func(rows *sql.Rows) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		err = scan(rows)
	}
	return cmp.Or(err, rows.Err(), rows.Close())
}

// connections is how many connections read, and as many write to a server.
const connections = 4

// reading runs queries that change nothing, all of them again if the connection was found to be lost, as all are after a server's restart.
func (d *database) reading(ctx context.Context, do func(ctx context.Context, db *bun.DB) error) error {
	if err := d.guard.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	for tries := 0; ; tries++ {
		err := do(ctx, d.read)
		if err == nil || tries == connections || ctx.Err() != nil || !lost(err) {
			return err
		}
	}
}
