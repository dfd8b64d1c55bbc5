package sqldb

import (
	"context"
	"errors"
	"time"
)

// commitError is the error of a commit. Whatever it says, the transaction may be committed: the answer was
// lost, or a server that was shutting down said that in its place.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

// settleEvery is how often a server that does not answer is asked.
const settleEvery = 100 * time.Millisecond

// errNotCommitted is the answer of a database that does not have a transaction.
var errNotCommitted = errors.New("sqldb: not committed")

// settle finds out what became of a transaction of Write, and returns nil if it was committed, else why it
// failed. The caller still has its turn, so the mark is that of the latest. A server may be slower than the
// connection that broke: it answers when the row of meta is free, and so the transaction has ended. One that
// cannot be reached is asked again for as long as a transaction may take. A file is asked once: what it did
// not write because it was full or broken, it cannot settle either.
func (db *DB) settle(ctx context.Context, op string, mark int64, failure error) error {
	ctx, cancel := context.WithTimeout(ctx, db.config.Patience)
	defer cancel()
	_, file := db.backend.(*sqliteDB)
	for {
		committed := false
		err := db.WriteLate(ctx, op, func(ctx context.Context, tx Tx) (err error) {
			if committed, err = tx.FenceIf(ctx, "fence = fence", "last_write = ?", mark); err == nil && !committed {
				err = errNotCommitted
			}
			return err
		})
		switch {
		case committed:
			return nil
		case errors.Is(err, ErrFenced):
			return err
		case file, errors.Is(err, errNotCommitted), errors.Is(err, ErrNotOpen):
			return failure
		}
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
			return failure
		}
	}
}
