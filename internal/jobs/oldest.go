package jobs

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Oldest says from when the age of the oldest job of a lane counts: from Created or from the time of the
// event, whichever is earlier.
type Oldest struct {
	Lane    Lane
	Created time.Time // zero if no job has an age but that of the event
	Event   uint64    // offset; 0 for none
}

// waitsOwn is the condition that a job waits, or has waited, for a time of its own: its first one to run,
// or one that it asked for. Its argument is blocked.
const waitsOwn = "claim = 0 AND COALESCE(due, 0) > 0 AND due < ? AND COALESCE(error, '') = ''"

// Oldest returns the oldest jobs of the lanes that have any. One that waits for a time of its own has no
// age until then. Of the others it takes the one with the smallest number. It takes some milliseconds,
// and for each lane whose first job is behind a million of others 0.1 to 0.4 s.
func (s *Store) Oldest(ctx context.Context, now time.Time) (oldest []Oldest, err error) {
	depths := s.Depths()
	if len(depths) == 0 {
		return nil, nil
	}
	err = s.db.Read(ctx, "find the oldest jobs", func(ctx context.Context, q sqldb.Reader) error {
		oldest = nil
		for lane := range depths {
			o, err := oldestOf(ctx, q, lane, now)
			if err != nil {
				return err
			}
			oldest = append(oldest, o)
		}
		return nil
	})
	return oldest, err
}

func oldestOf(ctx context.Context, q sqldb.Reader, lane Lane, now time.Time) (Oldest, error) {
	o := Oldest{Lane: lane}
	first := ""
	if q.MySQL() { // it would sort all jobs of the lane
		first = " FORCE INDEX (PRIMARY)"
	}
	var created, due int64
	err := q.QueryRowContext(ctx, "SELECT event, COALESCE((SELECT created FROM job_bodies WHERE job_bodies.id = jobs.id), 0) FROM jobs"+first+
		" WHERE lane = ? AND NOT ("+waitsOwn+") ORDER BY id LIMIT 1", lane.code(), int64(blocked)).Scan(&o.Event, &created)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return o, err
	}
	o.Created = sqldb.Time(created)
	err = q.QueryRowContext(ctx, "SELECT due FROM jobs WHERE lane = ? AND due > 0 AND due <= ? AND "+waitsOwn+" ORDER BY due, id LIMIT 1",
		lane.code(), sqldb.Nanos(now), int64(blocked)).Scan(&due)
	if errors.Is(err, sql.ErrNoRows) {
		return o, nil
	}
	if o.Created.IsZero() || due < created {
		o.Created = sqldb.Time(due)
	}
	return o, err
}
