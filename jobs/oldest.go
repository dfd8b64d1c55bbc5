package jobs

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/sqldb"
)

// Oldest says from when the age of the oldest job of a lane counts: from Created or from the time of the
// event, whichever is earlier.
type Oldest struct {
	Lane    Lane
	Created time.Time // zero if no job has an age but that of the event
	Event   uint64    // offset; 0 for none
}

// Oldest returns the oldest jobs of the lanes that have any with an age: one that waits for its first
// time to run, or that asked for the time of its next attempt, has none until then. Of those others it
// takes the one with the smallest number. It looks at all jobs: 0.1 to 0.3 s for a million.
func (s *Store) Oldest(ctx context.Context, now time.Time) (oldest []Oldest, err error) {
	if len(s.Depths()) == 0 {
		return nil, nil
	}
	const own = "claim = 0 AND due > 0 AND due < ? AND COALESCE(error, '') = ''" // it waits, or has waited, for a time of its own
	err = s.db.Read(ctx, "find the oldest jobs", func(ctx context.Context, q *bun.DB) error {
		oldest = nil
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			o := Oldest{}
			var created, due sql.NullInt64
			if err := rows.Scan(&o.Lane, &o.Event, &created, &due); err != nil {
				return err
			}
			o.Created = sqldb.Time(created.Int64)
			if due.Valid && (o.Created.IsZero() || due.Int64 < created.Int64) {
				o.Created = sqldb.Time(due.Int64)
			}
			oldest = append(oldest, o)
			return nil
		}, "SELECT firsts.lane, COALESCE(event, 0), created, firsts.due FROM (SELECT lane, MIN(CASE WHEN "+own+" THEN NULL ELSE id END) AS first,"+
			" MIN(CASE WHEN "+own+" AND due <= ? THEN due END) AS due FROM jobs GROUP BY lane) firsts"+
			" LEFT JOIN jobs ON jobs.id = first LEFT JOIN job_bodies ON job_bodies.id = first WHERE first IS NOT NULL OR firsts.due IS NOT NULL",
			int64(blocked), int64(blocked), sqldb.Nanos(now))
	})
	return oldest, err
}
