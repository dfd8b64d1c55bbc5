package jobs

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Lane is a queue and an endpoint, by their numbers. Endpoint 0 is that of jobs with a URL.
type Lane struct{ Queue, Endpoint uint32 }

func (l Lane) code() int64 { return int64(l.Queue)<<32 | int64(l.Endpoint) }

func laneOf(code int64) Lane { return Lane{Queue: uint32(code >> 32), Endpoint: uint32(code)} }

// Value implements [driver.Valuer]: a column keeps a lane as one number.
func (l Lane) Value() (driver.Value, error) { return l.code(), nil }

// Scan implements [sql.Scanner].
func (l *Lane) Scan(src any) error {
	code, ok := src.(int64)
	if !ok {
		return fmt.Errorf("%T is no lane", src)
	}
	*l = laneOf(code)
	return nil
}

// Body is what a job delivers. The jobs of events have none: theirs is made from the event.
type Body struct {
	Message     string // id that the receiver sees; empty: job:NUMBER
	Key         string // ordering key within the lane; empty for none
	Name        string // by which new jobs of a lane take turns; empty for none
	Priority    Priority
	URL         string // where to deliver; empty for a job of an endpoint
	ContentType string
	Data        []byte
	Created     time.Time
	Deadline    time.Time // after which it is not delivered any more; zero for none
}

// fields are those of bodyColumns, and the data.
func (b *Body) fields() []any {
	return []any{
		&b.Message, &b.Key, &b.Name, &b.Priority, &b.URL, &b.ContentType, sqldb.Instant(&b.Created), sqldb.Instant(&b.Deadline), sqldb.Bytes(&b.Data),
	}
}

const bodyColumns = "message, okey, name, priority, url, content_type, created, deadline"

// Priority decides which of the jobs of a queue and endpoint come first. The zero one is normal.
type Priority int8

const (
	// PriorityLow is for jobs that come after all others.
	PriorityLow Priority = iota - 1
	// PriorityNormal is that of the jobs of events.
	PriorityNormal
	// PriorityHigh is for jobs that come before all others.
	PriorityHigh
)

// String returns high, normal or low.
func (p Priority) String() string {
	switch {
	case p > PriorityNormal:
		return "high"
	case p < PriorityNormal:
		return "low"
	}
	return "normal"
}

// ParsePriority returns the priority that a text names; an empty one names PriorityNormal. Errors:
// [ErrBad].
func ParsePriority(text string) (Priority, error) {
	for p := PriorityLow; p <= PriorityHigh; p++ {
		if text == p.String() {
			return p, nil
		}
	}
	if text == "" {
		return PriorityNormal, nil
	}
	return 0, bad("%.40q is no priority; want high, normal or low", text)
}

// Job is a job that was claimed.
type Job struct {
	ID       uint64
	Lane     Lane
	Event    uint64 // offset of the event that it reports; 0 if it has a body
	Key      int64  // hash of lane and ordering key; 0 for no key
	Claim    int64  // number of the claim; 0 for none
	Attempts int    // failed attempts
	Name     string // that of its body
	Priority Priority
	Share    uint16 // that it was claimed from, see [Store.Shares]
	Body     *Body  // nil for the job of an event, and if the body is large, see [Store.Body]
}

// Term returns the term of the process that has claimed the job, see [sqldb.DB.Fence]; 0 if none has.
func (j *Job) Term() int64 { return j.Claim >> claimBits }

// claimBits is the length of the part of a claim number that counts the claims of a term.
const claimBits = 32

// blocked is the due time of a job that waits until another one is gone.
const blocked = math.MaxInt64

// claimable makes jobs claimable at once. They block the others with their keys until then.
const claimable = "claim = 0, due = 0, held = " + heldByKey

// heldByKey is the value of the column held of a job that blocks those after it that have its key.
const heldByKey = "CASE WHEN okey <> 0 THEN okey END"

// dueOf returns the due time of a job that is not blocked; 0 for one that is due at once.
func dueOf(t time.Time) int64 { return min(max(sqldb.Nanos(t), 0), blocked-1) }

// jobRow is a new row of jobs.
type jobRow struct {
	id, event uint64
	lane      Lane
	okey      int64
	share     uint16
	due       int64 // of a job that is to run later; else 0
}

// insertJobs inserts jobs of share 0 that are to run at once.
func insertJobs(ctx context.Context, tx sqldb.Tx, rows []jobRow) error {
	t := &sqldb.Table{Name: "jobs", Ints: []string{"id", "lane", "event", "okey"}}
	return tx.Insert(ctx, t, len(rows), func(args []any, i int) []any {
		r := &rows[i]
		return append(args, int64(r.id), r.lane.code(), int64(r.event), r.okey)
	})
}

// insertShared inserts jobs of any share, and those that are to run later.
func (s *Store) insertShared(ctx context.Context, tx sqldb.Tx, rows []jobRow) error {
	var plain, due, keyed []jobRow
	for _, r := range rows {
		switch {
		case r.due != 0:
			due = append(due, r)
			continue
		case r.share == 0:
			plain = append(plain, r)
			continue
		}
		if r.due = dueInShare(r.share); r.okey == 0 {
			due = append(due, r)
		} else {
			keyed = append(keyed, r)
		}
		s.offer(r.lane, r.share)
	}
	if err := insertJobs(ctx, tx, plain); err != nil {
		return err
	}
	t := &sqldb.Table{Name: "jobs", Ints: []string{"id", "lane", "event", "okey", "due"}}
	err := tx.Insert(ctx, t, len(due), func(args []any, i int) []any {
		r := &due[i]
		return append(args, int64(r.id), r.lane.code(), int64(r.event), r.okey, r.due)
	})
	if err != nil {
		return err
	}
	t.Ints = append(t.Ints, "held")
	return tx.Insert(ctx, t, len(keyed), func(args []any, i int) []any {
		r := &keyed[i]
		return append(args, int64(r.id), r.lane.code(), int64(r.event), r.okey, r.due, r.okey)
	})
}

// takeNumbers returns the first of n new job numbers. Jobs are committed in the order of their
// numbers, since the row that it changes is locked until the transaction ends.
func takeNumbers(ctx context.Context, tx sqldb.Tx, n int) (first uint64, err error) {
	if _, err := tx.Exec(ctx, "UPDATE job_numbers SET last = last + ? WHERE id = 1", n); err != nil {
		return 0, err
	}
	last, err := lastNumber(ctx, tx)
	return last - uint64(n) + 1, err
}

func lastNumber(ctx context.Context, q sqldb.Querier) (last uint64, err error) {
	err = q.QueryRowContext(ctx, "SELECT last FROM job_numbers WHERE id = 1").Scan(&last)
	return last, err
}

// bodyRow is a row of job_bodies.
type bodyRow struct {
	Body

	ID uint64
}

func (r *bodyRow) fields() []any { return append([]any{&r.ID}, r.Body.fields()...) }

// stored returns the body of a job as it is kept.
func (b Body) stored(id uint64) Body {
	if b.Message == "" {
		b.Message = fmt.Sprintf("job:%d", id)
	}
	if b.Data == nil {
		b.Data = []byte{}
	}
	return b
}
