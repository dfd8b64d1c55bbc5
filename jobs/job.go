package jobs

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/sqldb"
)

// Lane is a queue and an endpoint, by their numbers. Endpoint 0 is that of jobs with a URL.
type Lane struct{ Queue, Endpoint uint32 }

func (l Lane) code() int64 { return int64(l.Queue)<<32 | int64(l.Endpoint) }

func laneOf(code int64) Lane { return Lane{Queue: uint32(code >> 32), Endpoint: uint32(code)} }

// Body is what a job delivers. The jobs of events have none: theirs is made from the event.
type Body struct {
	Message     string // id that the receiver sees; empty: job:NUMBER
	Key         string // ordering key within the lane; empty for none
	URL         string // where to deliver; empty for a job of an endpoint
	ContentType string
	Data        []byte
	Created     time.Time
	Deadline    time.Time // after which it is not delivered any more; zero for none
}

// Job is a job that was claimed.
type Job struct {
	ID       uint64
	Lane     Lane
	Event    uint64 // offset of the event that it reports; 0 if it has a body
	Key      int64  // hash of lane and ordering key; 0 for no key
	Claim    int64  // number of the claim
	Attempts int    // failed attempts
	Body     *Body  // nil for the job of an event, and if the body is large, see [Store.Body]
}

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
}

func insertJobs(ctx context.Context, tx sqldb.Tx, rows []jobRow) error {
	t := &sqldb.Table{Name: "jobs", Ints: []string{"id", "lane", "event", "okey"}}
	return tx.Insert(ctx, t, len(rows), func(args []any, i int) []any {
		r := &rows[i]
		return append(args, int64(r.id), r.lane.code(), int64(r.event), r.okey)
	})
}

// takeNumbers returns the first of n new job numbers. Jobs are committed in the order of their
// numbers, since the row that it changes is locked until the transaction ends.
func takeNumbers(ctx context.Context, tx sqldb.Tx, n int) (first uint64, err error) {
	if _, err := tx.NewRaw("UPDATE job_numbers SET last = last + ? WHERE id = 1", n).Exec(ctx); err != nil {
		return 0, err
	}
	last, err := lastNumber(ctx, tx)
	return last - uint64(n) + 1, err
}

func lastNumber(ctx context.Context, q bun.IDB) (last uint64, err error) {
	err = q.QueryRowContext(ctx, "SELECT last FROM job_numbers WHERE id = 1").Scan(&last)
	return last, err
}

// bodyColumns are the columns that job_bodies and dead_jobs share.
type bodyColumns struct {
	ID          uint64 `bun:"id,pk"`
	Message     string `bun:"message"`
	Key         string `bun:"okey"`
	URL         string `bun:"url"`
	ContentType string `bun:"content_type"`
	Data        []byte `bun:"data"`
	Created     int64  `bun:"created"`
	Deadline    int64  `bun:"deadline"`
}

// bodyRow is a row of job_bodies.
type bodyRow struct {
	bun.BaseModel `bun:"table:job_bodies"`
	bodyColumns
}

func columnsOf(id uint64, b *Body) bodyColumns {
	c := bodyColumns{
		ID: id, Message: b.Message, Key: b.Key, URL: b.URL, ContentType: b.ContentType, Data: b.Data,
		Created: sqldb.Nanos(b.Created), Deadline: sqldb.Nanos(b.Deadline),
	}
	if c.Message == "" {
		c.Message = fmt.Sprintf("job:%d", id)
	}
	if c.Data == nil {
		c.Data = []byte{}
	}
	return c
}

func (c *bodyColumns) body() Body {
	return Body{
		Message: c.Message, Key: c.Key, URL: c.URL, ContentType: c.ContentType, Data: c.Data,
		Created: sqldb.Time(c.Created), Deadline: sqldb.Time(c.Deadline),
	}
}
