package store

import (
	"context"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// Outbox writes what follows from events, such as notifications, in the transaction that writes the
// events.
type Outbox interface {
	// Insert writes what follows from events, the first of which has an offset. The store calls
	// committed once the transaction is committed, which may turn out only after an error. A batch
	// whose transaction failed is inserted again.
	Insert(ctx context.Context, tx sqldb.Tx, first uint64, events []liveness.Event) (committed func(), err error)
	// Needed returns the offset of the oldest event that is still needed; math.MaxUint64 for none.
	Needed(ctx context.Context) (uint64, error)
	// Release does without the events before an offset, since they are too old to be kept. It returns
	// what Needed returns afterwards.
	Release(ctx context.Context, before uint64) (needed uint64, err error)
}
