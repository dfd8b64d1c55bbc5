package store

import (
	"context"
	"database/sql"
	"iter"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/sqldb"
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
		ID: r.ID, Lane: laneOf(r.Lane), Attempts: r.Attempts, Error: r.Error, Status: r.Status, Response: r.Response, Died: sqldb.Time(r.Died),
		JobBody: JobBody{
			Message: r.Message, Key: r.Key, URL: r.URL, ContentType: r.ContentType, Data: r.Data, Created: sqldb.Time(r.Created), Deadline: sqldb.Time(r.Deadline),
		},
	}
}

// dyingRow is what a row of jobs says of one that becomes a dead letter.
type dyingRow struct {
	ID       uint64         `bun:"id"`
	Claim    int64          `bun:"claim"`
	Attempts int            `bun:"attempts"`
	Error    sql.NullString `bun:"error"`
}

// why returns the error of a dead letter. One that died without another attempt, since it had become too old, says what the last one came to.
func (r *dyingRow) why(o *Outcome) string {
	if o.Job.Attempts > r.Attempts || r.Error.String == "" {
		return o.Error
	}
	return o.Error + "; the last attempt: " + r.Error.String
}

// maxData is how many bytes of bodies a statement has, which are twice as many when written as text: MySQL takes 16 MB by default.
const maxData = 4 << 20

// chunksOf parts rows for statements of a bounded size. Only a row by itself may have more bytes than maxData.
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

// bury writes dead letters for jobs that are still claimed.
func bury(ctx context.Context, tx sqldb.Tx, dead []*Outcome, now time.Time) error {
	for chunk := range chunksOf(dead, func(o *Outcome) int { return len(o.Body.Data) }) {
		ids := make([]uint64, len(chunk))
		for i, o := range chunk {
			ids[i] = o.Job.ID
		}
		var rows []dyingRow
		if err := tx.NewRaw("SELECT id, claim, attempts, error FROM jobs WHERE id IN (?)", bun.List(ids)).Scan(ctx, &rows); err != nil {
			return err
		}
		dying := make(map[uint64]*dyingRow)
		for i := range rows {
			dying[rows[i].ID] = &rows[i]
		}
		var letters []deadRow
		for _, o := range chunk {
			row := dying[o.Job.ID]
			if row == nil || row.Claim != o.Job.Claim {
				continue
			}
			body := bodyRowOf(o.Job.ID, &o.Body)
			letters = append(letters, deadRow{
				ID: o.Job.ID, Lane: o.Job.Lane.code(), Message: body.Message, Key: body.Key, URL: body.URL, ContentType: body.ContentType, Data: body.Data,
				Created: body.Created, Deadline: body.Deadline, Attempts: o.Job.Attempts, Error: sqldb.Text(row.why(o), maxJobError), Status: o.Status,
				Response: sqldb.Text(o.Response, maxResponse), Died: sqldb.Nanos(now),
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

	upto uint64 // only with no greater number; 0 for all
}

func (f *DeadFilter) where(q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("id > ?", f.After)
	if f.upto > 0 {
		q = q.Where("id <= ?", f.upto)
	}
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

// Dead returns up to limit dead letters, by number. What was to be delivered may have a megabyte each.
func (j *Jobs) Dead(ctx context.Context, filter DeadFilter, limit int) ([]DeadJob, error) {
	return j.dead(ctx, filter, limit)
}

// DeadHeads is Dead without Data.
func (j *Jobs) DeadHeads(ctx context.Context, filter DeadFilter, limit int) ([]DeadJob, error) {
	return j.dead(ctx, filter, limit, "data")
}

func (j *Jobs) dead(ctx context.Context, filter DeadFilter, limit int, without ...string) ([]DeadJob, error) {
	var rows []deadRow
	err := j.db.Read(ctx, "read dead letters", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		return filter.where(q.NewSelect().Model(&rows).ExcludeColumn(without...)).Limit(int64(limit)).Scan(ctx)
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
// Those that come meanwhile stay: jobs that were replayed and failed again, for example.
func (j *Jobs) Replay(ctx context.Context, filter DeadFilter) (int, error) {
	return j.eachDead(ctx, filter, "replay dead letters", func(ctx context.Context, tx sqldb.Tx, rows []deadRow) (map[Lane]int64, error) {
		first, err := takeNumbers(ctx, tx, len(rows))
		if err != nil {
			return nil, err
		}
		jobs := make([]jobRow, len(rows))
		counts := make(map[Lane]int64)
		for i := range rows {
			lane := laneOf(rows[i].Lane)
			jobs[i] = jobRow{id: first + uint64(i), lane: rows[i].Lane, okey: orderOf(lane, rows[i].Key)}
			counts[lane]++
		}
		if err := insertJobs(ctx, tx, jobs); err != nil {
			return nil, err
		}
		now := sqldb.Nanos(time.Now()) // they begin anew
		query := "INSERT INTO job_bodies (id, message, okey, url, content_type, data, created, deadline)" +
			" SELECT ?, message, okey, url, content_type, data, ?, 0 FROM dead_jobs WHERE id = ?"
		return counts, tx.Repeat(ctx, query, len(rows), func(args []any, i int) []any {
			return append(args, int64(jobs[i].id), now, int64(rows[i].ID))
		})
	})
}

// Discard removes the dead letters that a filter chooses for good, and says how many there were.
func (j *Jobs) Discard(ctx context.Context, filter DeadFilter) (int, error) {
	return j.eachDead(ctx, filter, "discard dead letters", func(context.Context, sqldb.Tx, []deadRow) (map[Lane]int64, error) {
		return nil, nil
	})
}

// eachDead does something with the numbers, lanes and keys of the dead letters that there are, piece by piece, and removes them.
func (j *Jobs) eachDead(
	ctx context.Context, filter DeadFilter, what string,
	do func(ctx context.Context, tx sqldb.Tx, rows []deadRow) (map[Lane]int64, error),
) (total int, err error) {
	if filter.upto, err = j.latest(ctx); err != nil {
		return 0, err
	}
	for ctx.Err() == nil {
		var rows []deadRow
		var counts map[Lane]int64
		err := j.change(ctx, what, func(ctx context.Context, tx sqldb.Tx) (_ map[Lane]int64, err error) {
			rows, counts = nil, nil
			if err := filter.where(tx.NewSelect().Model(&rows).Column("id", "lane", "okey")).Limit(deadStep).Scan(ctx); err != nil || len(rows) == 0 {
				return nil, err
			}
			if counts, err = do(ctx, tx, rows); err != nil {
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
// failed of which it is not known whether it was committed. A clock that is ahead for a while makes nothing too old, and lets nothing wait for that
// long.
func (j *Jobs) Sweep(ctx context.Context, keep Retention, now time.Time) (int, error) {
	if err := j.recheck(ctx); err != nil {
		return 0, err
	}
	if err := j.shortenWaits(ctx, now); err != nil {
		return 0, err
	}
	total := 0
	for ctx.Err() == nil {
		var removed int64
		err := j.write(ctx, "remove old dead letters", func(ctx context.Context, tx sqldb.Tx) error {
			if _, err := tx.NewRaw("DELETE FROM job_keys WHERE created < ?", sqldb.Nanos(j.db.OldBefore(now, keep.KeyAge))).Exec(ctx); err != nil {
				return err
			}
			if err := forgetMoves(ctx, tx); err != nil {
				return err
			}
			ids, err := surplus(ctx, tx, keep.Dead, j.db.OldBefore(now, keep.DeadAge))
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
func surplus(ctx context.Context, tx sqldb.Tx, keep int, old time.Time) ([]uint64, error) {
	var limit []uint64 // the first that is kept
	if err := tx.NewRaw("SELECT id FROM dead_jobs ORDER BY id DESC LIMIT 1 OFFSET ?", max(keep-1, 0)).Scan(ctx, &limit); err != nil {
		return nil, err
	}
	first := uint64(0)
	if len(limit) > 0 {
		first = limit[0]
	}
	var ids []uint64
	err := tx.NewRaw("SELECT id FROM dead_jobs WHERE id < ? OR died < ? ORDER BY id LIMIT ?", first, sqldb.Nanos(old), pruneStep).Scan(ctx, &ids)
	return ids, err
}
