package jobs

import (
	"context"
	"database/sql"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// DeadLetter is a job that could not be delivered.
type DeadLetter struct {
	Body

	ID       uint64
	Lane     Lane
	Attempts int
	Error    string
	Status   int // of the last response; 0 if there was none
	Response string
	Died     time.Time
}

// fields are those of deadColumns, and the data.
func (d *DeadLetter) fields() []any {
	return append([]any{&d.ID, &d.Lane, &d.Attempts, &d.Error, &d.Status, &d.Response, sqldb.Instant(&d.Died)}, d.Body.fields()...)
}

const deadColumns = "id, lane, attempts, error, status, response, died, " + bodyColumns

// dyingRow is what dead letters need of rows of jobs.
type dyingRow struct {
	ID       uint64
	Claim    int64
	Attempts int
	Error    sql.NullString
}

func (r *dyingRow) fields() []any { return []any{&r.ID, &r.Claim, &r.Attempts, &r.Error} }

// why returns the error of a dead letter. If the job died without another attempt, because it was too
// old, the error of the last attempt is added.
func (r *dyingRow) why(a *Ack) string {
	if a.Job.Attempts > r.Attempts || r.Error.String == "" {
		return a.Error
	}
	return a.Error + "; the last attempt: " + r.Error.String
}

// insertDead writes dead letters of jobs that are still claimed.
func (s *Store) insertDead(ctx context.Context, tx sqldb.Tx, dead []*Ack, now time.Time) error {
	for chunk := range chunksOf(dead, func(a *Ack) int { return len(a.Body.Data) }) {
		ids := make([]uint64, len(chunk))
		for i, a := range chunk {
			ids[i] = a.Job.ID
		}
		rows, err := sqldb.All(ctx, tx, (*dyingRow).fields, "SELECT id, claim, attempts, error FROM jobs WHERE id IN (?)", sqldb.Ints(ids))
		if err != nil {
			return err
		}
		dying := make(map[uint64]*dyingRow)
		for i := range rows {
			dying[rows[i].ID] = &rows[i]
		}
		var letters []DeadLetter
		var ended []View
		for _, a := range chunk {
			row := dying[a.Job.ID]
			if row == nil || row.Claim != a.Job.Claim {
				continue
			}
			letters = append(letters, DeadLetter{
				ID: a.Job.ID, Body: a.Body.stored(a.Job.ID), Lane: a.Job.Lane, Attempts: a.Job.Attempts, Error: sqldb.Text(row.why(a), maxError),
				Status: a.Status, Response: sqldb.Text(a.Response, maxResponse), Died: now,
			})
			ended = append(ended, a.ended(StateDead, row.why(a), now))
		}
		if err := putDead(ctx, tx, letters); err != nil {
			return err
		}
		if err := s.keepEnded(ctx, tx, ended); err != nil {
			return err
		}
	}
	return nil
}

func putDead(ctx context.Context, tx sqldb.Tx, letters []DeadLetter) error {
	t := &sqldb.Table{
		Name: "dead_jobs", Ints: []string{"id", "lane", "attempts", "status", "died", "priority", "created", "deadline"},
		Texts: []string{"error", "response", "message", "okey", "name", "url", "content_type"}, Blobs: []string{"data"},
	}
	return tx.Insert(ctx, t, len(letters), func(args []any, i int) []any {
		d := &letters[i]
		return append(args, int64(d.ID), d.Lane.code(), int64(d.Attempts), int64(d.Status), sqldb.Nanos(d.Died), int64(d.Priority), sqldb.Nanos(d.Created),
			sqldb.Nanos(d.Deadline), d.Error, d.Response, d.Message, d.Key, d.Name, d.URL, d.ContentType, d.Data)
	})
}

// Dead returns up to limit dead letters, by number. The Data of each may have a megabyte.
func (s *Store) Dead(ctx context.Context, filter Filter, limit int) ([]DeadLetter, error) {
	return s.dead(ctx, filter, limit, "data")
}

// DeadHeads is Dead without Data.
func (s *Store) DeadHeads(ctx context.Context, filter Filter, limit int) ([]DeadLetter, error) {
	return s.dead(ctx, filter, limit, "NULL")
}

func (s *Store) dead(ctx context.Context, filter Filter, limit int, data string) (dead []DeadLetter, err error) {
	where, args := filter.where()
	err = s.db.Read(ctx, "read dead letters", func(ctx context.Context, q sqldb.Reader) (err error) {
		query := "SELECT " + deadColumns + ", " + data + " FROM dead_jobs WHERE " + where + " ORDER BY id LIMIT ?"
		dead, err = sqldb.All(ctx, q, (*DeadLetter).fields, query, append(args, limit)...)
		return err
	})
	return dead, err
}

// Replay makes new jobs of dead letters, with the message ids that their receivers know, and returns
// how many. Jobs that become dead letters meanwhile, perhaps replayed ones that failed again, are left
// alone.
func (s *Store) Replay(ctx context.Context, filter Filter) (int, error) {
	return s.eachDead(ctx, filter, "replay dead letters", func(ctx context.Context, tx sqldb.Tx, rows []DeadLetter) (map[Lane]int64, error) {
		first, err := takeNumbers(ctx, tx, len(rows))
		if err != nil {
			return nil, err
		}
		jobs := make([]jobRow, len(rows))
		counts := make(map[Lane]int64)
		for i := range rows {
			lane := rows[i].Lane
			jobs[i] = jobRow{id: first + uint64(i), lane: lane, okey: orderOf(lane, rows[i].Key), share: shareOf(rows[i].Name, rows[i].Priority)}
			counts[lane]++
		}
		if err := s.insertShared(ctx, tx, jobs); err != nil {
			return nil, err
		}
		now := sqldb.Nanos(time.Now()) // their age counts from now
		const query = "INSERT INTO job_bodies (id, message, okey, name, priority, url, content_type, data, created, deadline)" +
			" SELECT ?, message, okey, name, priority, url, content_type, data, ?, 0 FROM dead_jobs WHERE id = ?"
		return counts, tx.Repeat(ctx, query, len(rows), func(args []any, i int) []any {
			return append(args, int64(jobs[i].id), now, int64(rows[i].ID))
		})
	})
}

// DeleteDead deletes dead letters and returns how many.
func (s *Store) DeleteDead(ctx context.Context, filter Filter) (int, error) {
	return s.eachDead(ctx, filter, "delete dead letters", func(context.Context, sqldb.Tx, []DeadLetter) (map[Lane]int64, error) {
		return nil, nil
	})
}

// eachDead calls do with the numbers, lanes, keys, names and priorities of dead letters, some at a time, and
// deletes them. It wakes the lanes that do returns counts of.
func (s *Store) eachDead(
	ctx context.Context, filter Filter, op string, do func(ctx context.Context, tx sqldb.Tx, rows []DeadLetter) (map[Lane]int64, error),
) (int, error) {
	return s.inSteps(ctx, op, filter, func(ctx context.Context, tx sqldb.Tx, where string, args []any) (st step, err error) {
		rows, err := sqldb.All(ctx, tx, func(d *DeadLetter) []any { return []any{&d.ID, &d.Lane, &d.Key, &d.Name, &d.Priority} },
			"SELECT id, lane, okey, name, priority FROM dead_jobs WHERE "+where+" ORDER BY id LIMIT ?", append(args, deadStep)...)
		if err != nil || len(rows) == 0 {
			return st, err
		}
		if st.counts, err = do(ctx, tx, rows); err != nil {
			return st, err
		}
		ids := make([]uint64, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
		}
		st.n, st.last, st.wake = len(rows), ids[len(ids)-1], lanesOf(st.counts)
		_, err = tx.Exec(ctx, "DELETE FROM dead_jobs WHERE id IN (?)", sqldb.Ints(ids))
		return st, err
	})
}

// deadStep is how many dead letters one transaction handles.
const deadStep = 200
