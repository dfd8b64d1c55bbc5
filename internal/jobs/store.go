package jobs

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
)

var (
	// ErrBad is wrapped by errors that say what is wrong with a request.
	ErrBad = errors.New("jobs: bad request")
	// ErrUnknown is wrapped by errors about a name or a number that does not exist.
	ErrUnknown = errors.New("jobs: unknown")
	// ErrInUse is wrapped by errors about something that cannot be deleted or changed now, because it is
	// needed.
	ErrInUse = errors.New("jobs: in use")
)

func bad(format string, args ...any) error {
	return errkind.Errorf(ErrBad, format, args...)
}

// Store keeps jobs in a database. Make one with [New].
type Store struct {
	db       *sqldb.DB
	router   router
	watch    atomic.Pointer[func([]Lane)]
	describe atomic.Pointer[func(context.Context, []Job) ([]Body, error)]
	waits    waits
	keeps    atomic.Bool // see KeepEnded

	mu      sync.Mutex // guards the fields below
	depths  map[Lane]int64
	counted int64             // how often the depths were counted anew
	doubt   bool              // a transaction failed that may have been committed: the depths may be wrong
	cursors map[Lane]uint64   // the number up to which claims have seen all jobs
	shares  map[Lane][]uint16 // that may have new jobs, the next to be claimed first
	named   *nameTable        // nil if it has to be read
	claims  int64             // since the database was opened
}

// New returns a store of the jobs in a database that is not open yet.
func New(db *sqldb.DB) *Store {
	s := &Store{db: db}
	db.Own(sqldb.Owner{TakeOver: s.takeOver})
	return s
}

// Watch sets a function that is called with the lanes that jobs were added to, or can be claimed
// again in, after that was committed. It is called concurrently and must not block.
func (s *Store) Watch(wake func([]Lane)) { s.watch.Store(&wake) }

func (s *Store) wake(lanes ...Lane) {
	if f := s.watch.Load(); f != nil && len(lanes) > 0 {
		(*f)(lanes)
	}
}

// Depths returns how many jobs each lane has. It does not query the database.
func (s *Store) Depths() map[Lane]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	depths := make(map[Lane]int64, len(s.depths))
	for lane, n := range s.depths {
		if n > 0 {
			depths[lane] = n
		}
	}
	return depths
}

// takeOver releases the jobs that the previous writer had claimed, and counts all. It must run in the
// transaction that raises the fence: run later, by a process that was stopped in between, it would
// release the jobs that its successor has claimed.
func (s *Store) takeOver(ctx context.Context, tx sqldb.Tx) error {
	if _, err := tx.Exec(ctx, "UPDATE jobs SET "+claimable+" WHERE due IS NOT NULL AND claim <> 0"); err != nil {
		return err
	}
	last, err := lastNumber(ctx, tx)
	if err != nil {
		return err
	}
	behind, err := tx.SetBack(ctx)
	if err != nil {
		return err
	}
	s.waits.begin(s.db.Now().Round(0), time.Now(), last, behind)
	s.mu.Lock()
	s.cursors, s.shares, s.named, s.claims = make(map[Lane]uint64), make(map[Lane][]uint16), nil, 0
	s.mu.Unlock()
	err = sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
		var lane Lane
		var due int64
		err := rows.Scan(&lane, &due)
		s.offer(lane, uint16(-due))
		return err
	}, "SELECT DISTINCT lane, due FROM jobs WHERE due < 0")
	if err != nil {
		return err
	}
	return s.count(ctx, tx)
}

// count counts the jobs of each lane. Since transactions do not overlap, those that were begun before
// are in the result, and the ones that follow are not, see [Store.add].
func (s *Store) count(ctx context.Context, tx sqldb.Tx) error {
	depths, err := sqldb.Pairs[Lane, int64](ctx, tx, "SELECT lane, COUNT(*) FROM jobs GROUP BY lane")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.depths, s.doubt = depths, false
	s.counted++
	return nil
}

// recount counts the jobs anew if the depths may be wrong.
func (s *Store) recount(ctx context.Context) error {
	s.mu.Lock()
	doubt := s.doubt
	s.mu.Unlock()
	if !doubt {
		return nil
	}
	return s.write(ctx, "count jobs", s.count)
}

// generation returns the number that [Store.add] needs. Call it in the transaction.
func (s *Store) generation() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted
}

// add adds the changes of a committed transaction to the depths, unless the jobs were counted after
// that transaction.
func (s *Store) add(counts map[Lane]int64, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counted != generation {
		return
	}
	for lane, n := range counts {
		s.depths[lane] += n
	}
}

// write is change for a transaction that leaves the number of jobs as it is.
func (s *Store) write(ctx context.Context, op string, do func(ctx context.Context, tx sqldb.Tx) error) error {
	return s.change(ctx, op, func(ctx context.Context, tx sqldb.Tx) (map[Lane]int64, error) { return nil, do(ctx, tx) })
}

// change runs a transaction, after it has followed the clock, and adds the counts that do returns to the
// depths.
func (s *Store) change(ctx context.Context, op string, do func(ctx context.Context, tx sqldb.Tx) (map[Lane]int64, error)) error {
	if err := s.followClock(ctx); err != nil {
		return err
	}
	var counts map[Lane]int64
	var generation int64
	err := s.db.Write(ctx, op, func(ctx context.Context, tx sqldb.Tx) (err error) {
		generation = s.generation()
		counts, err = do(ctx, tx)
		return err
	})
	switch {
	case err == nil:
		s.add(counts, generation)
	case !errkind.Is(err): // it is about the database
		s.mu.Lock()
		s.doubt = true
		s.mu.Unlock()
	}
	return err
}

func lanesOf(counts map[Lane]int64) []Lane { return slices.Collect(maps.Keys(counts)) }
