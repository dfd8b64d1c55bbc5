package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"time"
)

// patience is the default of how long a server may take for a transaction.
const patience = 30 * time.Second

// connections is how many connections read, and how many write to a server.
const connections = 4

// conns are the connections to a database.
type conns struct {
	backend

	patience time.Duration
	write    *sql.DB
	read     *sql.DB
	guard    *guard       // of a database in a file, once it was opened for writing
	waiting  atomic.Int64 // Unix time in ns since when a transaction in a file waits for other programs; 0 if none does
}

func openConns(b backend, timeout time.Duration) (*conns, error) {
	if err := b.prepare(); err != nil {
		return nil, err
	}
	return connect(b, timeout), nil
}

// connect is openConns for a database that is there.
func connect(b backend, timeout time.Duration) *conns {
	write, read := b.pools()
	return &conns{backend: b, patience: timeout, write: write, read: read}
}

// mount guards the file of a database that is in one, and writes a mark into it, by which it is known: a
// checksum of the id of the database and the number of the fence. Only a process that has the fence may
// do so: its successor would take a file with an earlier mark for one that was overwritten.
func (c *conns) mount(ctx context.Context, f fence) error {
	file, ok := c.backend.(*sqliteDB)
	if !ok {
		return nil
	}
	var mark uint32
	err := c.transact(ctx, func(ctx context.Context, tx Tx) error {
		id := ""
		err := tx.QueryRowContext(ctx, "SELECT store_id FROM meta WHERE id = 1 AND fence = ? AND nonce = ?", f.term, f.nonce).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w; this one does not touch its file", ErrFenced)
		}
		if err != nil {
			return err
		}
		mark = crc32.ChecksumIEEE(fmt.Appendf(nil, "%s %d", id, f.term)) & (1<<31 - 1)
		_, err = tx.Exec(ctx, fmt.Sprintf("PRAGMA user_version = %d", mark))
		return err
	})
	if err != nil {
		return err
	}
	g, err := newGuard(ctx, file.path, c.dsn(), mark)
	c.guard = g
	return err
}

// dsn returns the driver's name of the file, for whoever looks after it.
func (c *conns) dsn() string {
	return c.backend.(*sqliteDB).dsn("mode=rw", "busy_timeout(10000)", "cache_size(-4096)")
}

func (c *conns) close() error {
	_ = c.read.Close() // nothing was written over it
	return errors.Join(c.write.Close(), c.guard.close())
}

// releaseMemory gives back what the connections to a file have cached.
func (c *conns) releaseMemory(ctx context.Context) error {
	if _, ok := c.backend.(*sqliteDB); !ok {
		return nil
	}
	c.read.SetMaxIdleConns(0) // closes those that are idle
	c.read.SetMaxIdleConns(connections)
	_, err := c.write.ExecContext(ctx, "PRAGMA shrink_memory")
	return err
}

// limit returns ctx with the time that a transaction may take. A transaction in a file is not
// interrupted: in a commit, SQLite would not say whether it was one, and it does not hang.
func (c *conns) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := c.backend.(*sqliteDB); ok {
		return context.WithoutCancel(ctx), func() {}
	}
	return context.WithTimeout(ctx, c.patience)
}

// transact runs a transaction. If it fails, the connection is given up: the next transaction finds
// the truth in the database.
func (c *conns) transact(ctx context.Context, do func(ctx context.Context, tx Tx) error) (err error) {
	if err := c.guard.check(); err != nil {
		return err
	}
	ctx, cancel := c.limit(ctx)
	defer cancel()
	conn, tx, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			discard(conn)
		}
		_ = conn.Close() // gives it back
	}()
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := do(ctx, Tx{Reader: Reader{backend: c.backend, on: tx}, tx: tx}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return commitError{err}
	}
	return c.guard.check() // what went into a file that is gone was not written
}

// begin begins a transaction, on another connection if one turns out to be lost.
func (c *conns) begin(ctx context.Context) (*sql.Conn, *sql.Tx, error) {
	for tries := 0; ; tries++ {
		conn, err := c.write.Conn(ctx)
		if err != nil {
			return nil, nil, err
		}
		tx, err := c.beginOn(ctx, conn)
		if err == nil {
			return conn, tx, nil
		}
		discard(conn)
		_ = conn.Close() // it was given up
		if tries == connections || ctx.Err() != nil || !lost(err) {
			return nil, nil, err
		}
	}
}

// beginOn begins a transaction on a connection. Only one connection writes to a file, so only one
// transaction waits.
func (c *conns) beginOn(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	if _, ok := c.backend.(*sqliteDB); ok {
		c.waiting.Store(time.Now().UnixNano())
		defer c.waiting.Store(0)
	}
	return conn.BeginTx(ctx, nil)
}

// reading runs queries that change nothing. All of them run again if the connection turns out to be
// lost.
func (c *conns) reading(ctx context.Context, do func(ctx context.Context, q Reader) error) error {
	if err := c.guard.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	for tries := 0; ; tries++ {
		err := do(ctx, c.reader())
		if err == nil || tries == connections || ctx.Err() != nil || !lost(err) {
			return err
		}
	}
}

// reader returns what runs queries.
func (c *conns) reader() Reader { return Reader{backend: c.backend, on: c.read} }

// lost reports whether an error is about a connection that ended.
func lost(err error) bool {
	cause := causeOf(err, "")
	return cause == causeLost || cause == causeShutdown
}

// discard gives up a connection for good.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // what it returns says that it was given up
}
