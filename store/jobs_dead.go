package store

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

// DeadJob is a dead letter.
type DeadJob struct {
	JobBody

	ID       uint64
	Lane     Lane
	Attempts int // that were made
	Error    string
	Status   int // of the last answer, 0 if there was none
	Response string
	Died     time.Time
}

// deadRow is a row of dead_jobs.
type deadRow struct {
	bun.BaseModel `bun:"table:dead_jobs"`

	ID          uint64 `bun:"id,pk"`
	Lane        int64  `bun:"lane"`
	Message     string `bun:"message"`
	Key         string `bun:"okey"`
	URL         string `bun:"url"`
	ContentType string `bun:"content_type"`
	Data        []byte `bun:"data"`
	Created     int64  `bun:"created"`
	Deadline    int64  `bun:"deadline"`
	Attempts    int    `bun:"attempts"`
	Error       string `bun:"error"`
	Status      int    `bun:"status"`
	Response    string `bun:"response"`
	Died        int64  `bun:"died"`
}

func (r *deadRow) job() DeadJob {
	return DeadJob{
		ID: r.ID, Lane: laneOf(r.Lane), Attempts: r.Attempts, Error: r.Error, Status: r.Status, Response: r.Response, Died: timeOf(r.Died),
		JobBody: JobBody{
			Message: r.Message, Key: r.Key, URL: r.URL, ContentType: r.ContentType, Data: r.Data, Created: timeOf(r.Created), Deadline: timeOf(r.Deadline),
		},
	}
}

// bury writes dead letters for jobs that are still claimed.
func bury(ctx context.Context, tx bun.Tx, dead []*Outcome, now time.Time) error {
	for chunk := range slices.Chunk(dead, 100) { // a body may have a megabyte
		ids := make([]uint64, len(chunk))
		for i, o := range chunk {
			ids[i] = o.Job.ID
		}
		claims := make(map[uint64]int64)
		var rows []struct {
			ID    uint64 `bun:"id"`
			Claim int64  `bun:"claim"`
		}
		if err := tx.NewRaw("SELECT id, claim FROM jobs WHERE id IN (?)", bun.List(ids)).Scan(ctx, &rows); err != nil {
			return err
		}
		for _, r := range rows {
			claims[r.ID] = r.Claim
		}
		var letters []deadRow
		for _, o := range chunk {
			if claim, ok := claims[o.Job.ID]; !ok || claim != o.Job.Claim {
				continue
			}
			body := bodyRowOf(o.Job.ID, &o.Body)
			letters = append(letters, deadRow{
				ID: o.Job.ID, Lane: o.Job.Lane.code(), Message: body.Message, Key: body.Key, URL: body.URL, ContentType: body.ContentType, Data: body.Data,
				Created: body.Created, Deadline: body.Deadline, Attempts: o.Job.Attempts, Error: shortText(o.Error, maxJobError), Status: o.Status,
				Response: shortText(o.Response, maxResponse), Died: nanos(now),
			})
		}
		if len(letters) == 0 {
			continue
		}
		if _, err := tx.NewInsert().Model(&letters).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// DeadFilter chooses dead letters. The zero one chooses all.
type DeadFilter struct {
	IDs   []uint64 // only these
	Lanes []Lane   // only of these; nil for all
	After uint64   // only with a greater number
}

func (f *DeadFilter) where(q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("id > ?", f.After)
	if f.IDs != nil {
		q = q.Where("id IN (?)", bun.List(append([]uint64{0}, f.IDs...)))
	}
	if f.Lanes != nil {
		q = q.Where("lane IN (?)", bun.List(codes(f.Lanes)))
	}
	return q.Order("id")
}

// codes returns the lanes as they are kept, and one that is none, since a list must not be empty.
func codes(lanes []Lane) []int64 {
	list := []int64{-1}
	for _, l := range lanes {
		list = append(list, l.code())
	}
	return list
}

// Dead returns up to limit dead letters, by number.
func (j *Jobs) Dead(ctx context.Context, filter DeadFilter, limit int) ([]DeadJob, error) {
	var rows []deadRow
	err := j.read(ctx, "read dead letters", func(ctx context.Context, db *bun.DB) error {
		rows = nil
		return filter.where(db.NewSelect().Model(&rows)).Limit(int64(limit)).Scan(ctx)
	})
	if err != nil {
		return nil, err
	}
	dead := make([]DeadJob, len(rows))
	for i := range rows {
		dead[i] = rows[i].job()
	}
	return dead, nil
}

// deadStep is how many dead letters one transaction handles.
const deadStep = 200

// Replay makes new jobs of the dead letters that a filter chooses, with the ids that their receivers know, and says how many there were.
func (j *Jobs) Replay(ctx context.Context, filter DeadFilter) (int, error) {
	return j.eachDead(ctx, filter, "replay dead letters", func(ctx context.Context, d *database, tx bun.Tx, rows []deadRow) (map[Lane]int64, error) {
		jobs := make([]NewJob, len(rows))
		for i := range rows {
			dead := rows[i].job()
			jobs[i] = NewJob{Lane: dead.Lane, JobBody: dead.JobBody}
			jobs[i].Created, jobs[i].Deadline = time.Now(), time.Time{} // they begin anew
		}
		return enqueue(ctx, d, tx, jobs, make([]uint64, len(jobs)))
	})
}

// Discard removes the dead letters that a filter chooses for good, and says how many there were.
func (j *Jobs) Discard(ctx context.Context, filter DeadFilter) (int, error) {
	return j.eachDead(ctx, filter, "discard dead letters", func(context.Context, *database, bun.Tx, []deadRow) (map[Lane]int64, error) {
		return nil, nil
	})
}

// eachDead does something with dead letters, piece by piece, and removes them.
func (j *Jobs) eachDead(
	ctx context.Context, filter DeadFilter, what string,
	do func(ctx context.Context, d *database, tx bun.Tx, rows []deadRow) (map[Lane]int64, error),
) (total int, err error) {
	for ctx.Err() == nil {
		var rows []deadRow
		var counts map[Lane]int64
		err := j.change(ctx, what, func(ctx context.Context, d *database, tx bun.Tx) (_ map[Lane]int64, err error) {
			rows, counts = nil, nil
			if err := filter.where(tx.NewSelect().Model(&rows)).Limit(deadStep).Scan(ctx); err != nil || len(rows) == 0 {
				return nil, err
			}
			if counts, err = do(ctx, d, tx, rows); err != nil {
				return nil, err
			}
			ids := make([]uint64, len(rows))
			for i := range rows {
				ids[i] = rows[i].ID
			}
			_, err = tx.NewRaw("DELETE FROM dead_jobs WHERE id IN (?)", bun.List(ids)).Exec(ctx)
			return counts, err
		})
		if err != nil {
			return total, err
		}
		if len(rows) == 0 {
			return total, nil
		}
		for lane := range counts {
			j.added([]Lane{lane})
		}
		total += len(rows)
		filter.After = rows[len(rows)-1].ID
	}
	return total, ctx.Err()
}

// Retention says what [Jobs.Sweep] keeps.
type Retention struct {
	Dead    int           // the latest dead letters
	DeadAge time.Duration // no older ones
	KeyAge  time.Duration // idempotency keys no older
}

// Sweep removes dead letters and idempotency keys that are too old or too many, and says how many dead letters. It also counts the jobs anew if a transaction
// failed of which it is not known whether it was committed.
func (j *Jobs) Sweep(ctx context.Context, keep Retention, now time.Time) (int, error) {
	if err := j.recheck(ctx); err != nil {
		return 0, err
	}
	total := 0
	for ctx.Err() == nil {
		var removed int64
		err := j.write(ctx, "remove old dead letters", func(ctx context.Context, _ *database, tx bun.Tx) error {
			if _, err := tx.NewRaw("DELETE FROM job_keys WHERE created < ?", now.Add(-keep.KeyAge).UnixNano()).Exec(ctx); err != nil {
				return err
			}
			ids, err := surplus(ctx, tx, keep, now)
			if err != nil || len(ids) == 0 {
				return err
			}
			res, err := tx.NewRaw("DELETE FROM dead_jobs WHERE id IN (?)", bun.List(ids)).Exec(ctx)
			if err != nil {
				return err
			}
			removed, err = res.RowsAffected()
			return err
		})
		if err != nil || removed == 0 {
			return total, err
		}
		total += int(removed)
	}
	return total, ctx.Err()
}

// surplus returns some of the oldest dead letters that are too old or too many.
func surplus(ctx context.Context, tx bun.Tx, keep Retention, now time.Time) ([]uint64, error) {
	var limit []uint64 // the first that is kept
	if err := tx.NewRaw("SELECT id FROM dead_jobs ORDER BY id DESC LIMIT 1 OFFSET ?", max(keep.Dead-1, 0)).Scan(ctx, &limit); err != nil {
		return nil, err
	}
	first := uint64(0)
	if len(limit) > 0 {
		first = limit[0]
	}
	var ids []uint64
	err := tx.NewRaw("SELECT id FROM dead_jobs WHERE id < ? OR died < ? ORDER BY id LIMIT ?", first, now.Add(-keep.DeadAge).UnixNano(), pruneStep).Scan(ctx, &ids)
	return ids, err
}

// oldestNeeded returns the offset of the oldest event that a job needs, beyond all if none does. Jobs are in the order of their events,
// and those that come meanwhile need later ones.
func oldestNeeded(ctx context.Context, d *database) (uint64, error) {
	var events []uint64
	err := d.reading(ctx, func(ctx context.Context, db *bun.DB) error {
		events = nil
		return db.NewRaw("SELECT event FROM jobs WHERE event > 0 ORDER BY id LIMIT 1").Scan(ctx, &events)
	})
	if err != nil || len(events) == 0 {
		return math.MaxUint64, err
	}
	return events[0], nil
}
