package sqldb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
)

// fence is what each transaction that writes checks. The term grows with each process that opens the
// database. Should a failover of the database lose commits, a process that has not seen the last term may
// give it again; the nonce, a random number, tells the two apart.
type fence struct{ term, nonce int64 }

// tenure is the time for which a process writes, from an Open until another process takes the database
// over.
type tenure struct {
	fence // set before others have the tenure

	once sync.Once
	why  error         // set before over is closed
	over chan struct{} // closed by end, once
}

func newTenure() *tenure { return &tenure{over: make(chan struct{})} }

// end notes that another process has taken the database over. That is final.
func (t *tenure) end(why error) {
	t.once.Do(func() {
		t.why = why
		close(t.over)
	})
}

// err returns an error that wraps ErrFenced if the tenure has ended.
func (t *tenure) err() error {
	select {
	case <-t.over:
		return t.why
	default:
		return nil
	}
}

// metaRow is what this package reads of the one row of meta. The other columns are the store's.
type metaRow struct {
	fence

	storeID              string
	checkpointAt, steady int64
}

func readMeta(ctx context.Context, q Querier) (m metaRow, err error) {
	err = q.QueryRowContext(ctx, "SELECT store_id, fence, nonce, checkpoint_at, steady FROM meta WHERE id = 1").
		Scan(&m.storeID, &m.term, &m.nonce, &m.checkpointAt, &m.steady)
	return m, err
}

// fenceOf returns the fence, zeros if there is none yet.
func fenceOf(ctx context.Context, c *conns) (f fence, err error) {
	err = c.reading(ctx, func(ctx context.Context, q Reader) error {
		return q.QueryRowContext(ctx, "SELECT COALESCE(MAX(fence), 0), COALESCE(MAX(nonce), 0) FROM meta WHERE id = 1").Scan(&f.term, &f.nonce)
	})
	return f, err
}

// takeOver raises the fence and lets the owners join in. The fence was read as before while the lock
// was held: a process that was stopped since then, and whose lock another process has now, finds
// another fence and changes nothing.
func (db *DB) takeOver(ctx context.Context, c *conns, before, to fence) (meta metaRow, err error) {
	db.resumed.Store(db.config.Terms.resumes(before, to))
	err = c.transact(ctx, func(ctx context.Context, tx Tx) (err error) {
		tx.db, tx.passed = db, new(bool)
		if before.term == 0 {
			err = db.found(ctx, tx, to)
		} else {
			err = raiseFence(ctx, tx, before, to)
		}
		if err == nil {
			err = db.claimed(ctx, tx, to)
		}
		if err != nil {
			return err
		}
		if meta, err = readMeta(ctx, tx); err != nil {
			return err
		}
		if before.term != 0 { // else it is new, and nothing was lost or the loss was accepted
			if err := db.checkNote(meta.storeID); err != nil {
				return err
			}
		}
		for _, o := range db.owners {
			if o.TakeOver == nil {
				continue
			}
			if err := o.TakeOver(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		db.config.Terms.took(before, to)
	}
	return meta, err
}

// found makes the row of meta in a new database.
func (db *DB) found(ctx context.Context, tx Tx, to fence) error {
	if err := db.checkNote(""); err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	_, err := tx.Exec(ctx, "INSERT INTO meta (id, store_id, fence, nonce, last_offset, oldest, checkpoint, checkpoint_at, memory, steady)"+
		" VALUES (1, ?, ?, ?, 0, 1, 0, 0, '', 0)", hex.EncodeToString(id), to.term, to.nonce)
	return err
}

// raiseFence raises the fence if it is still what it was before, and lower.
func raiseFence(ctx context.Context, tx Tx, before, to fence) error {
	raised, err := tx.Exec(ctx, "UPDATE meta SET fence = ?, nonce = ? WHERE id = 1 AND fence = ? AND nonce = ? AND fence < ?",
		to.term, to.nonce, before.term, before.nonce, to.term)
	if err == nil && raised == 0 {
		err = errLate
	}
	return err
}

// errLate is returned by an Open that another one has overtaken.
var errLate = fmt.Errorf("%w while this one was about to; it changes nothing", ErrFenced)

// claimed returns an error if a server does not know of our lease any more: another process has it, or a
// failover of the database has lost the claim, and who has the fence now must not lose it to us.
func (db *DB) claimed(ctx context.Context, tx Tx, f fence) error {
	if _, ok := db.backend.(*sqliteDB); ok {
		return nil
	}
	n := 0
	err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM judge WHERE id = 1 AND nonce = ?", f.nonce).Scan(&n)
	if err == nil && n == 0 {
		err = errLate
	}
	return err
}
