package jobs

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/sqldb"
)

// Spec describes a job to enqueue.
type Spec struct {
	Body

	Lane  Lane
	Route bool      // its job route decides what Lane leaves 0, and else the default queue
	RunAt time.Time // zero: at once. Until then it blocks no other job
	// Unique is an idempotency key, empty for none. A second job with it is not made within a day:
	// Enqueue returns the number of the first one.
	Unique string
}

// SpecError is an error of [Store.Enqueue] about one of the jobs. It wraps ErrBad.
type SpecError struct {
	Index int // of the job
	Err   error
}

func (e *SpecError) Error() string { return fmt.Sprintf("jobs[%d]: %v", e.Index, e.Err) }

func (e *SpecError) Unwrap() error { return e.Err }

// Enqueue makes jobs, all or none, and returns their numbers once they are committed. After an error
// of the database they may have been made nevertheless; a Unique key tells. Errors: [SpecError] for a job
// with Route that has neither a URL nor an endpoint.
func (s *Store) Enqueue(ctx context.Context, jobs []Spec) ([]uint64, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	numbers := make([]uint64, len(jobs))
	var counts map[Lane]int64
	err := s.change(ctx, "enqueue", func(ctx context.Context, tx sqldb.Tx) (_ map[Lane]int64, err error) {
		counts, err = s.enqueueRouted(ctx, tx, jobs, numbers)
		return counts, err
	})
	if err != nil {
		return nil, err
	}
	s.wake(lanesOf(counts)...)
	return numbers, nil
}

// keyRow is a row of job_keys.
type keyRow struct {
	bun.BaseModel `bun:"table:job_keys"`

	Name    string    `bun:"name,pk"`
	ID      uint64    `bun:"id"`
	Created time.Time `bun:"created"`
}

// enqueueRouted is enqueue, after the job routes.
func (s *Store) enqueueRouted(ctx context.Context, tx sqldb.Tx, jobs []Spec, numbers []uint64) (map[Lane]int64, error) {
	routed, err := s.routeJobs(ctx, tx, jobs)
	if err != nil {
		return nil, err
	}
	return s.enqueue(ctx, tx, routed, numbers)
}

// enqueue sets the numbers of jobs, and returns how many are new.
func (s *Store) enqueue(ctx context.Context, tx sqldb.Tx, jobs []Spec, numbers []uint64) (map[Lane]int64, error) {
	first, err := takeNumbers(ctx, tx, len(jobs))
	if err != nil {
		return nil, err
	}
	counts := make(map[Lane]int64)
	seen := make(map[string]uint64)
	var rows []jobRow
	var bodies []bodyRow
	var keys []keyRow
	var later []*Spec
	var laterIDs []uint64
	for i := range jobs {
		job := &jobs[i]
		id := first + uint64(i)
		if job.Unique != "" {
			known, err := knownKey(ctx, tx, job.Unique, seen)
			if err != nil {
				return nil, err
			}
			if known != 0 {
				numbers[i] = known
				continue
			}
			seen[job.Unique] = id
			keys = append(keys, keyRow{Name: job.Unique, ID: id, Created: job.Created})
		}
		numbers[i] = id
		row := jobRow{id: id, lane: job.Lane, okey: orderOf(job.Lane, job.Key)}
		if job.RunAt.IsZero() {
			row.share = shareOf(job.Name)
		} else {
			later, laterIDs = append(later, job), append(laterIDs, id)
		}
		rows = append(rows, row)
		bodies = append(bodies, bodyRow{ID: id, Body: job.Body.stored(id)})
		counts[job.Lane]++
	}
	if len(rows) == 0 {
		return counts, nil
	}
	if err := s.insertShared(ctx, tx, rows); err != nil {
		return nil, err
	}
	err = tx.Repeat(ctx, "UPDATE jobs SET due = ? WHERE id = ?", len(later), func(args []any, i int) []any {
		return append(args, dueOf(later[i].RunAt), int64(laterIDs[i]))
	})
	if err != nil {
		return nil, err
	}
	for chunk := range chunksOf(bodies, func(b bodyRow) int { return len(b.Data) }) {
		if _, err := tx.NewInsert().Model(&chunk).Exec(ctx); err != nil {
			return nil, err
		}
	}
	if len(keys) > 0 {
		_, err = tx.NewInsert().Model(&keys).Exec(ctx)
	}
	return counts, err
}

// knownKey returns the number of the job that has an idempotency key, 0 if there is none. seen has the
// keys of the same call.
func knownKey(ctx context.Context, tx sqldb.Tx, key string, seen map[string]uint64) (uint64, error) {
	if id, ok := seen[key]; ok {
		return id, nil
	}
	var ids []uint64
	err := tx.NewSelect().Model((*keyRow)(nil)).Column("id").Where("name = ?", key).Scan(ctx, &ids)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return ids[0], nil
}

// maxData is how many bytes of bodies a statement has. As text they are twice as many, and MySQL takes
// 16 MB by default.
const maxData = 4 << 20

// chunksOf divides rows into chunks for statements of a bounded size. Only a row by itself may have
// more than maxData bytes.
func chunksOf[T any](rows []T, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		first, sum := 0, 0
		for i, row := range rows {
			n := size(row)
			if i > first && (i-first == 100 || sum+n > maxData) {
				if !yield(rows[first:i]) {
					return
				}
				first, sum = i, 0
			}
			sum += n
		}
		if first < len(rows) {
			yield(rows[first:])
		}
	}
}
