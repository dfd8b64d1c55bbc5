package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// lockQueries are the queries for a lock of a server.
type lockQueries struct {
	take   string // returns 1 if the lock is ours
	holder string // returns a description of its holder
}

// sessionLock is a lock that a server holds for a connection. It ends with the connection.
type sessionLock struct {
	lockQueries

	db *sql.DB

	mu   sync.Mutex // guards conn; held while the server is asked
	conn *sql.Conn  // nil if it was lost
}

// lockPatience is how long to wait for a lock: a server may take that long to notice that a process
// was killed.
const lockPatience = 2 * time.Second

// newSessionLock takes a lock over a pool of its own, which is closed with the lock.
func newSessionLock(ctx context.Context, db *sql.DB, q lockQueries) (lock, error) {
	l := &sessionLock{lockQueries: q, db: db}
	for begin := time.Now(); ; {
		err := l.take(ctx)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, ErrLocked) || time.Since(begin) > lockPatience {
			_ = db.Close() // nothing depends on it
			return nil, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			_ = db.Close() // as above
			return nil, context.Cause(ctx)
		}
	}
}

// take takes the lock on a new connection.
func (l *sessionLock) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return err
	}
	var got int
	if err = conn.QueryRowContext(ctx, l.lockQueries.take).Scan(&got); err == nil && got == 1 {
		l.conn = conn
		return nil
	}
	if err == nil {
		holder := "a connection that the server does not name"
		_ = conn.QueryRowContext(ctx, l.holder).Scan(&holder) // the lock may have been let go meanwhile
		err = fmt.Errorf("%w by %s; stop that one, or use another database", ErrLocked, holder)
	}
	discard(conn)
	_ = conn.Close() // it was given up
	return err
}

func (l *sessionLock) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.mu.Lock()
	conn := l.conn
	if conn != nil {
		if conn.PingContext(ctx) == nil {
			l.mu.Unlock()
			return nil
		}
		l.conn = nil
		discard(conn)
		_ = conn.Close() // it was given up
	}
	l.mu.Unlock()
	return l.take(ctx)
}

func (l *sessionLock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		discard(l.conn) // ends the connection, and so the lock
		_ = l.conn.Close()
		l.conn = nil
	}
	return l.db.Close()
}
