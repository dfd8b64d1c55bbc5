package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Spec describes a job to enqueue.
type Spec struct {
	Body

	Lane  Lane
	Route bool      // its job route decides what Lane leaves 0, and else the default queue
	RunAt time.Time // zero: at once. Until then it blocks no other job
	// Unique is an idempotency key, empty for none. A second job with it is not made within Window:
	// Enqueue returns the number of the first one.
	Unique string
	Window time.Duration // from the first one's Created; zero: until Sweep deletes the key, in a day
	// Debounce lets a job take the place of the one with its idempotency key that waits for its first
	// RunAt: that one has its content, deadline and RunAt from then on, but runs within ten windows of the
	// first request. Where it goes, its name, key and priority stay. It needs a RunAt.
	Debounce bool
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
	n := newJobs{counts: make(map[Lane]int64), seen: make(map[string]int)}
	now := s.db.Now()
	for i := range jobs {
		job := &jobs[i]
		known := n.standIn(job)
		if _, ok := n.seen[job.Unique]; known == 0 && job.Unique != "" && !ok {
			if known, err = standIn(ctx, tx, job, now); err != nil {
				return nil, err
			}
		}
		if numbers[i] = known; known == 0 {
			numbers[i] = first + uint64(i)
			n.add(numbers[i], job)
		}
	}
	return n.counts, n.write(ctx, s, tx)
}

// newJobs are the rows of new jobs.
type newJobs struct {
	rows   []jobRow
	bodies []bodyRow
	counts map[Lane]int64
	seen   map[string]int // index of the last job with an idempotency key
}

// standIn is the function of this name for jobs of the same call.
func (n *newJobs) standIn(job *Spec) uint64 {
	i, ok := n.seen[job.Unique]
	if !ok || job.Debounce && n.rows[i].due == 0 {
		return 0
	}
	row, body := &n.rows[i], &n.bodies[i].Body
	if job.Debounce {
		b := job.stored(row.id)
		row.due, body.ContentType, body.Data, body.Created, body.Deadline = dueOf(job.RunAt), b.ContentType, b.Data, b.Created, b.Deadline
	}
	return row.id
}

func (n *newJobs) add(id uint64, job *Spec) {
	if job.Unique != "" {
		n.seen[job.Unique] = len(n.rows)
	}
	row := jobRow{id: id, lane: job.Lane, okey: orderOf(job.Lane, job.Key)}
	if row.due = dueOf(job.RunAt); row.due == 0 {
		row.share = shareOf(job.Name, job.Priority)
	}
	n.rows = append(n.rows, row)
	n.bodies = append(n.bodies, bodyRow{ID: id, Body: job.stored(id)})
	n.counts[job.Lane]++
}

func (n *newJobs) write(ctx context.Context, s *Store, tx sqldb.Tx) error {
	if err := s.insertShared(ctx, tx, n.rows); err != nil {
		return err
	}
	if err := insertBodies(ctx, tx, n.bodies); err != nil {
		return err
	}
	t := &sqldb.Table{Name: "job_keys", Ints: []string{"id", "created"}, Texts: []string{"name"}, Key: "name"}
	keys := slices.Collect(maps.Keys(n.seen))
	return tx.Insert(ctx, t, len(keys), func(args []any, i int) []any {
		b := &n.bodies[n.seen[keys[i]]]
		return append(args, int64(b.ID), sqldb.Nanos(b.Created), keys[i])
	})
}

func insertBodies(ctx context.Context, tx sqldb.Tx, bodies []bodyRow) error {
	t := &sqldb.Table{
		Name: "job_bodies", Ints: []string{"id", "created", "deadline", "priority"}, Texts: []string{"message", "okey", "name", "url", "content_type"},
		Blobs: []string{"data"},
	}
	for chunk := range chunksOf(bodies, func(b bodyRow) int { return len(b.Data) }) {
		err := tx.Insert(ctx, t, len(chunk), func(args []any, i int) []any {
			b := &chunk[i]
			return append(args, int64(b.ID), sqldb.Nanos(b.Created), sqldb.Nanos(b.Deadline), int64(b.Priority), b.Message, b.Key, b.Name, b.URL, b.ContentType, b.Data)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// debounceWindows bounds for how long newer requests put a debounced job off, in windows.
const debounceWindows = 10

// standIn returns the number of the job that stands for a new one with its idempotency key, after it has
// renewed that if the new one is debounced; 0 if there is none.
func standIn(ctx context.Context, tx sqldb.Tx, job *Spec, now time.Time) (uint64, error) {
	var first uint64
	var created time.Time
	err := tx.QueryRowContext(ctx, "SELECT id, created FROM job_keys WHERE name = ?", job.Unique).Scan(&first, sqldb.Instant(&created))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, err
	case job.Debounce:
		last := created.Add((debounceWindows - 1) * job.Window) // it was to run a window after the request
		renewed, err := renew(ctx, tx, first, job, earliest(job.RunAt, last))
		if err != nil || !renewed {
			return 0, err
		}
	case job.Window > 0 && !now.Before(created.Add(job.Window)):
		return 0, nil
	}
	return first, nil
}

// renew gives a job that waits for its first time to run the content of another one, and reports whether
// it did wait.
func renew(ctx context.Context, tx sqldb.Tx, id uint64, by *Spec, runAt time.Time) (bool, error) {
	n, err := tx.Exec(ctx, "UPDATE jobs SET due = ? WHERE id = ? AND claim = 0 AND due > 0 AND due < ? AND error IS NULL",
		dueOf(runAt), id, int64(blocked))
	if err != nil || n == 0 {
		return false, err
	}
	b := by.stored(id)
	_, err = tx.Exec(ctx, "UPDATE job_bodies SET content_type = ?, data = ?, created = ?, deadline = ? WHERE id = ?",
		b.ContentType, b.Data, runAt, b.Deadline, id)
	return true, err
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// maxData is how many bytes of bodies a statement has, and maxRows of how many. As text they are twice as
// many, and MySQL takes 16 MB by default.
const (
	maxData = 4 << 20
	maxRows = 500
)

// chunksOf divides rows into chunks for statements of a bounded size. Only a row by itself may have
// more than maxData bytes.
func chunksOf[T any](rows []T, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		first, sum := 0, 0
		for i, row := range rows {
			n := size(row)
			if i > first && (i-first == maxRows || sum+n > maxData) {
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
