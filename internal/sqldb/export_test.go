package sqldb

import (
	"context"
	"errors"
	"time"
)

// Exec runs a statement without the fence.
func (db *DB) Exec(ctx context.Context, query string) error {
	return db.WriteShared(ctx, "test", func(ctx context.Context, tx Tx) error {
		_, err := tx.Exec(ctx, query)
		return err
	})
}

// Scan scans the first row of a query.
func (db *DB) Scan(ctx context.Context, query string, dest ...any) error {
	return db.Read(ctx, "test", func(ctx context.Context, q Reader) error { return q.QueryRowContext(ctx, query).Scan(dest...) })
}

// RunAlone runs a statement that no transaction may have.
func (db *DB) RunAlone(ctx context.Context, query string) error {
	_, err := db.conns.write.ExecContext(ctx, query)
	return err
}

// ReplicationOf returns what the status of a MariaDB server means.
func ReplicationOf(status map[string]string) Replication { return replicationOf(status) }

// SetLease sets the durations of the lease of a server. Call it before Open.
func (db *DB) SetLease(length, every, patience time.Duration) {
	db.leaseTimes = leaseTimes{length, every, patience}
}

// Freeze ends the renewals of the lease, as if the process were stopped or killed between two of them: one that is cancelled while it is
// under way may still come.
func (db *DB) Freeze() {
	l := db.lock.(*lease)
	conn, err := l.pool.Conn(context.Background()) // the only one
	l.cancel()
	l.kept.Wait()
	if err == nil {
		_ = conn.Close()
	}
}

// Nonce returns the nonce of the fence.
func (db *DB) Nonce() int64 { return db.tenure.Load().nonce }

// Mount opens the database once more, as an Open does that has taken it over, and closes it.
func (db *DB) Mount(ctx context.Context) error {
	c, err := openConns(db.backend, patience)
	if err != nil {
		return err
	}
	return errors.Join(c.mount(ctx, db.tenure.Load().fence), c.close())
}

// ReleaseLock lets go of the lock, as if it had been lost.
func (db *DB) ReleaseLock() error {
	db.state.Lock()
	defer db.state.Unlock()
	l := db.lock
	db.lock = noLock{}
	return l.release()
}

// SteadyClock is the clock that tells how old things are.
type SteadyClock struct{ clock steadyClock }

// NewSteadyClock returns one that goes on from an instant.
func NewSteadyClock(at, wall, now time.Time) *SteadyClock {
	c := &SteadyClock{}
	c.clock.begin(at, wall, now)
	return c
}

// Look moves it.
func (c *SteadyClock) Look(wall, now time.Time) (shown, old time.Time) {
	return c.clock.look(wall.Round(0), now)
}
