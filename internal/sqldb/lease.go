package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// leaseTimes are the durations of a lease.
type leaseTimes struct {
	length   time.Duration // by the database's clock, after its latest renewal
	every    time.Duration // between two renewals
	patience time.Duration // how long the first renewal may take, see patienceAfter
}

// patienceAfter returns how long a renewal may take, before its connection is given up, if the latest one
// took or was given a time. It doubles with each that fails, up to mostPatience. A server that is slow
// keeps twice the time that it needs: on a new connection it would need more.
func (t leaseTimes) patienceAfter(took time.Duration) time.Duration {
	return min(max(t.patience, 2*took), mostPatience)
}

// mostPatience is enough to connect to a server that is overloaded.
const mostPatience = 10 * time.Second

func defaultLease() leaseTimes {
	return leaseTimes{length: 6 * time.Second, every: time.Second, patience: 2500 * time.Millisecond}
}

// lease is the lock of a database on a server: the row of the table judge, which ends by itself if its
// holder does not renew it. A goroutine does so, over a connection of its own, until the lease is
// released or lost.
type lease struct {
	judge
	leaseTimes

	db     *DB
	who    identity
	tenure *tenure
	cancel context.CancelFunc // ends the goroutine
	kept   sync.WaitGroup     // the goroutine
	stays  atomic.Bool        // see DB.KeepLease

	mu   sync.Mutex // guards sent
	sent time.Time  // when the latest renewal that succeeded was sent
}

// takeLease takes the lease for a tenure, whose fence it sets, and which ends with the lease. Errors:
// ErrLocked.
func (db *DB) takeLease(ctx context.Context, node string, t *tenure) (lock, error) {
	l := &lease{
		judge: judge{db.backend, db.backend.leasePool()}, leaseTimes: db.leaseTimes,
		db: db, who: identity{node, processName()}, tenure: t,
	}
	t.nonce = newNonce()
	if err := l.takeLease(ctx); err != nil {
		return nil, errors.Join(err, l.release()) //nolint:contextcheck // it may be ours, and ctx may have ended
	}
	db.signs.answer(nil)
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.kept.Go(func() { l.keep(ctx) })
	return l, nil
}

// newNonce returns a random number of 63 bits other than 0.
func newNonce() int64 { return rand.Int64N(1<<63-1) + 1 }

// takeLease takes the lease if it is free, or held by a process of the same name that is dead.
func (l *lease) takeLease(ctx context.Context) error {
	var namesake watch
	for {
		var row judgeRow
		var nowMicros int64
		err := l.on(ctx, l.db.config.Patience, func(ctx context.Context, conn *sql.Conn) (err error) {
			row, nowMicros, err = l.find(ctx, conn)
			return err
		})
		if err != nil {
			return err
		}
		free := row.free(nowMicros) || l.db.config.Terms.had(row.fence)
		if !free {
			if free, err = l.inherit(&namesake, row, nowMicros); err != nil {
				return err
			}
		}
		if free {
			if ours, err := l.tryClaim(ctx, row); ours || err != nil {
				return err
			}
			continue // another one was faster
		}
		select {
		case <-time.After(l.every / 4):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watch is what was seen of a lease, and when.
type watch struct {
	row judgeRow
	at  time.Time
}

// inherit reports whether the lease is that of a dead process with our name: what this one was before it
// was restarted. Until that is known it returns false. Errors: ErrLocked.
func (l *lease) inherit(w *watch, row judgeRow, nowMicros int64) (bool, error) {
	switch {
	case row.node != l.who.node:
		return false, fmt.Errorf("%w by %s", ErrLocked, row.text(nowMicros))
	case w.at.IsZero():
		*w = watch{row, time.Now()}
	case row.fence != w.row.fence || row.renewed != w.row.renewed:
		return false, fmt.Errorf("%w: another process calls itself %s, too; give each its own --node; it is held by %s", ErrLocked, row.node, row.text(nowMicros))
	}
	return time.Since(w.at) > 5*l.every/2, nil
}

// tryClaim reports whether the lease, which was seen to be free, is ours.
func (l *lease) tryClaim(ctx context.Context, seen judgeRow) (ours bool, err error) {
	sent := time.Now()
	err = l.on(ctx, l.db.config.Patience, func(ctx context.Context, conn *sql.Conn) error {
		fence, err := l.metaFence(ctx, conn)
		if err != nil {
			return err
		}
		l.tenure.term = l.db.config.Terms.beyond(seen.next(fence))
		if ours, err = l.claim(ctx, conn, seen, l.who, l.tenure.fence, l.length); ours || err != nil {
			return err
		}
		row, _, err := l.find(ctx, conn) // it may be ours, and the answer was lost with its connection
		ours = row.fence == l.tenure.fence
		return err
	})
	l.renewed(sent)
	return ours, err
}

// keep renews the lease until it is lost or released.
func (l *lease) keep(ctx context.Context) {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	patience := l.patience
	for {
		select {
		case <-tick.C:
		case <-l.tenure.over: // the fence is another's
			return
		case <-ctx.Done():
			return
		}
		sent := time.Now()
		l.db.signs.ask(sent)
		err := l.on(ctx, patience, l.tryRenew)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrFenced):
			l.tenure.end(err)
			return
		case err != nil:
			patience = l.patienceAfter(patience)
			l.db.signs.answer(l.db.wrap("renew the lease", err))
		default:
			patience = l.patienceAfter(time.Since(sent))
			l.renewed(sent)
			l.db.signs.answer(nil)
		}
	}
}

// tryRenew renews the lease. One that was deleted or cleared by hand is taken again, if nobody else has
// raised the fence since. Errors: ErrFenced.
func (l *lease) tryRenew(ctx context.Context, conn *sql.Conn) error {
	ours, err := l.renew(ctx, conn, l.who, l.tenure.fence, l.length)
	if ours || err != nil {
		return err
	}
	row, nowMicros, err := l.find(ctx, conn)
	if err != nil {
		return err
	}
	if row.node == "" {
		if ours, err = l.fenceIs(ctx, conn, l.tenure.fence); err == nil && ours {
			ours, err = l.claim(ctx, conn, row, l.who, l.tenure.fence, l.length)
		}
		if ours || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %s", ErrFenced, row.text(nowMicros))
}

// renewed notes when the latest renewal that succeeded was sent.
func (l *lease) renewed(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = sent
}

// lapsed returns for how long the lease may have been another's.
func (l *lease) lapsed(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, now.Sub(l.sent)-l.length*8/10)
}

func (l *lease) check(context.Context) error { return l.tenure.err() }

// release gives the lease back, unless it stays. If the server does not answer soon, the lease ends by itself.
func (l *lease) release() error {
	if l.cancel != nil {
		l.cancel()
	}
	l.kept.Wait()
	if l.tenure.term != 0 && !l.stays.Load() { // it was claimed
		_ = l.on(context.Background(), l.patience, func(ctx context.Context, conn *sql.Conn) error { return l.clear(ctx, conn, l.tenure.fence) })
	}
	return l.pool.Close()
}
