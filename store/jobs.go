package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
)

// Lane is where jobs stand in line: a queue and an endpoint, by their numbers. Endpoint 0 is that of jobs with a URL of their own.
type Lane struct{ Queue, Endpoint uint32 }

func (l Lane) code() int64 { return int64(l.Queue)<<32 | int64(l.Endpoint) }

func laneOf(code int64) Lane { return Lane{Queue: uint32(code >> 32), Endpoint: uint32(code)} }

// EventJob is a job that tells of an event: it has the event's subject as ordering key, and takes a row of a few bytes, since what it
// delivers is made from the event when it is delivered. Events that a job needs are kept for twice as long as others; a job that is
// still there then becomes a dead letter, see [Jobs.Describe].
type EventJob struct {
	Event int // index in the batch
	Lane  Lane
	// Route is the number of the route that led the event there; 0 for none. If it led elsewhere
	// before, the jobs in this lane wait for those in the other one that were made before this one,
	// and have the same key.
	Route uint32
}

// Outbox makes jobs of a batch of events. It is called by [Store.Append] before its transaction, which writes the jobs together with the
// events, and once more for each further attempt at it; it must do nothing but compute.
type Outbox func(events []liveness.Event) []EventJob

// JobBody is what a job delivers that does not tell of an event, or of one that is not kept any more.
type JobBody struct {
	Message     string // id that the receiver sees; empty: job:NUMBER
	Key         string // ordering key; jobs of a lane with the same key are delivered in their order; empty for none
	URL         string // where to; empty for a job of an endpoint
	ContentType string
	Data        []byte
	Created     time.Time
	Deadline    time.Time // after which it is not delivered any more; zero for none
}

// NewJob is a job to be.
type NewJob struct {
	JobBody

	Lane  Lane
	RunAt time.Time // zero: at once; before, it holds nobody with the same key up
	// Unique is an idempotency key: within a day, a second job with it is not made, and the number of the first is returned. Empty for none.
	Unique string
}

// Job is a job that was claimed.
type Job struct {
	ID       uint64
	Lane     Lane
	Event    uint64   // offset of the event that it tells of; 0 if there is a body
	Key      int64    // hash of lane and ordering key, 0 for no key
	Claim    int64    // number of the claim
	Attempts int      // that were made before and failed
	Body     *JobBody // nil if the job tells of an event, or if it is large: then see [Jobs.Body]
}

// Jobs are the jobs in a [Store]. All methods may be called concurrently; writers take turns with [Store.Append], and hold it up for the
// time of a transaction of bounded size. A writer that was overtaken by another process changes nothing, as everywhere ([sqldb.ErrFenced]).
type Jobs struct {
	store *Store
	db    *sqldb.DB
	watch atomic.Pointer[func([]Lane)]

	describe atomic.Pointer[func(Lane, *liveness.Event) (JobBody, error)]

	turns sync.Mutex // held by a writer of jobs until it has added to the depths

	mu      sync.Mutex // guards the fields below
	depths  map[Lane]int64
	doubt   bool            // a transaction failed, perhaps after it was committed: the depths may be wrong until they are counted anew
	cursors map[Lane]uint64 // all jobs up to it were looked at
	claims  int64           // made since the store was opened
}

// Jobs returns the jobs in the store.
func (s *Store) Jobs() *Jobs { return s.jobs }

// Watch sets a function that is told of the lanes that have got jobs, after they were committed. It must return at once, and is called
// concurrently.
func (j *Jobs) Watch(added func([]Lane)) { j.watch.Store(&added) }

func (j *Jobs) added(lanes []Lane) {
	if f := j.watch.Load(); f != nil && len(lanes) > 0 {
		(*f)(lanes)
	}
}

// Depths returns how many jobs each lane has. It does not ask the database.
func (j *Jobs) Depths() map[Lane]int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	depths := make(map[Lane]int64, len(j.depths))
	for lane, n := range j.depths {
		if n > 0 {
			depths[lane] = n
		}
	}
	return depths
}

// behind is the due time of a job that waits for another one.
const behind = math.MaxInt64

// dueOf returns the due time of a job that is not behind another one: 0 for one that is due at once.
func dueOf(t time.Time) int64 { return min(max(sqldb.Nanos(t), 0), behind-1) }

// jobRow is a row of jobs that nobody has looked at yet.
type jobRow struct {
	id, event  uint64
	lane, okey int64
}

func (r *jobRow) ints() [4]int64 { return [4]int64{int64(r.id), r.lane, int64(r.event), r.okey} }

func insertJobs(ctx context.Context, tx sqldb.Tx, rows []jobRow) error {
	t := &sqldb.Table{Name: "jobs", Ints: []string{"id", "lane", "event", "okey"}}
	return tx.Insert(ctx, t, len(rows), func(args []any, i int) []any {
		ints := rows[i].ints()
		return appendInts(args, ints[:])
	})
}

// takeNumbers returns the first of n new numbers of jobs. Its lock keeps others from taking some until the transaction ends, so jobs are
// committed in the order of their numbers.
func takeNumbers(ctx context.Context, tx sqldb.Tx, n int) (first uint64, err error) {
	first, _, err = takeNumbersOf(ctx, tx, n, nil)
	return first, err
}

// takeNumbersOf is takeNumbers that returns the lanes, too, in which the latest jobs of some routes
// are, as far as they had any.
func takeNumbersOf(ctx context.Context, tx sqldb.Tx, n int, routes []uint32) (first uint64, lanes map[uint32]Lane, err error) {
	if _, err := tx.NewRaw("UPDATE job_numbers SET last = last + ? WHERE id = 1", n).Exec(ctx); err != nil {
		return 0, nil, err
	}
	query, args := "SELECT 0, last FROM job_numbers WHERE id = 1", []any(nil)
	if len(routes) > 0 {
		query, args = query+" UNION ALL SELECT route, lane FROM route_lanes WHERE route IN (?)", append(args, bun.List(routes))
	}
	lanes = make(map[uint32]Lane, len(routes))
	err = sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
		var route uint32
		var value int64
		if err := rows.Scan(&route, &value); err != nil {
			return err
		}
		if route == 0 {
			first = uint64(value) - uint64(n) + 1
		} else {
			lanes[route] = laneOf(value)
		}
		return nil
	}, query, args...)
	return first, lanes, err
}

// insertOutbox writes the jobs of a batch of events.
func insertOutbox(ctx context.Context, tx sqldb.Tx, jobs []EventJob, events []eventRow) error {
	if len(jobs) == 0 {
		return nil
	}
	var routes []uint32
	for i := range jobs {
		if route := jobs[i].Route; route != 0 && !slices.Contains(routes, route) {
			routes = append(routes, route)
		}
	}
	first, lanes, err := takeNumbersOf(ctx, tx, len(jobs), routes)
	if err != nil {
		return err
	}
	if err := follow(ctx, tx, jobs, first, lanes); err != nil {
		return err
	}
	rows := make([]jobRow, len(jobs))
	for i, job := range jobs {
		ev := &events[job.Event]
		rows[i] = jobRow{id: first + uint64(i), event: ev.pos, lane: job.Lane.code(), okey: orderOf(job.Lane, ev.event.Subject)}
	}
	return insertJobs(ctx, tx, rows)
}

// outbox makes the jobs of a batch.
func (s *Store) outbox(events []liveness.Event) []EventJob {
	if s.config.Outbox == nil {
		return nil
	}
	return s.config.Outbox(events)
}

// appended notes the jobs of a batch that was committed.
func (j *Jobs) appended(jobs []EventJob) {
	if len(jobs) == 0 {
		return
	}
	counts := make(map[Lane]int64)
	for _, job := range jobs {
		counts[job.Lane]++
	}
	j.count(counts)
	lanes := make([]Lane, 0, len(counts))
	for lane := range counts {
		lanes = append(lanes, lane)
	}
	j.added(lanes)
}

// count adds to the depths.
func (j *Jobs) count(counts map[Lane]int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for lane, n := range counts {
		j.depths[lane] += n
	}
}

// releaseAll lets go of the jobs that a writer before held. It is done where the fence is raised:
// done later, by a process that was stopped in between, it would free the jobs that its successor
// holds.
func releaseAll(ctx context.Context, tx sqldb.Tx) error {
	_, err := tx.NewRaw("UPDATE jobs SET claim = 0, due = 0, held = CASE WHEN okey <> 0 THEN okey END WHERE due IS NOT NULL AND claim <> 0").Exec(ctx)
	return err
}

// takeOver lets go of the jobs that the writer before held, and counts what there is.
func (j *Jobs) takeOver(ctx context.Context, tx sqldb.Tx) error {
	if err := releaseAll(ctx, tx); err != nil {
		return err
	}
	depths, err := countJobs(ctx, tx)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cursors, j.claims, j.depths = make(map[Lane]uint64), 0, depths
	return nil
}

// countJobs counts the jobs of each lane.
func countJobs(ctx context.Context, q sqldb.Querier) (map[Lane]int64, error) {
	depths := make(map[Lane]int64)
	return depths, sqldb.Each(ctx, q, func(rows *sql.Rows) error {
		var lane, n int64
		err := rows.Scan(&lane, &n)
		depths[laneOf(lane)] = n
		return err
	}, "SELECT lane, COUNT(*) FROM jobs GROUP BY lane")
}

// recount counts the jobs anew. Nobody may write any meanwhile.
func (j *Jobs) recount(ctx context.Context) error {
	var depths map[Lane]int64
	err := j.db.Read(ctx, "count jobs", func(ctx context.Context, q *bun.DB) (err error) {
		depths, err = countJobs(ctx, q)
		return err
	})
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.depths = depths
	return nil
}

// recheck counts the jobs anew if the depths are in doubt.
func (j *Jobs) recheck(ctx context.Context) error {
	j.mu.Lock()
	doubt := j.doubt
	j.mu.Unlock()
	if !doubt {
		return nil
	}
	j.turns.Lock() // nobody else writes jobs
	defer j.turns.Unlock()
	j.store.writing.Lock() // nor events with jobs
	defer j.store.writing.Unlock()
	if err := j.recount(ctx); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.doubt = false
	return nil
}

// doubted notes that the depths may be wrong.
func (j *Jobs) doubted() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.doubt = true
}

// write is change for what leaves the number of jobs as it is.
func (j *Jobs) write(ctx context.Context, what string, do func(ctx context.Context, tx sqldb.Tx) error) error {
	return j.change(ctx, what, func(ctx context.Context, tx sqldb.Tx) (map[Lane]int64, error) { return nil, do(ctx, tx) })
}

// change runs a transaction that changes jobs, and adds what it returns to the depths.
func (j *Jobs) change(
	ctx context.Context, what string, do func(ctx context.Context, tx sqldb.Tx) (map[Lane]int64, error),
) error {
	j.turns.Lock()
	defer j.turns.Unlock()
	var counts map[Lane]int64
	err := j.db.Write(ctx, what, func(ctx context.Context, tx sqldb.Tx) (err error) {
		counts, err = do(ctx, tx)
		return err
	})
	switch {
	case err == nil:
		j.count(counts)
	case !errkind.Is(err):
		j.doubted()
	}
	return err
}

// Enqueue makes jobs, all or none, and returns the number of each. After an error that is not about the jobs they may have been made
// nevertheless; a Unique key tells. It returns once they are safe.
func (j *Jobs) Enqueue(ctx context.Context, jobs []NewJob) ([]uint64, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	numbers := make([]uint64, len(jobs))
	var counts map[Lane]int64
	err := j.change(ctx, "enqueue", func(ctx context.Context, tx sqldb.Tx) (_ map[Lane]int64, err error) {
		counts, err = enqueue(ctx, tx, jobs, numbers)
		return counts, err
	})
	if err != nil {
		return nil, err
	}
	lanes := make([]Lane, 0, len(counts))
	for lane := range counts {
		lanes = append(lanes, lane)
	}
	j.added(lanes)
	return numbers, nil
}

// keyRow is a row of job_keys.
type keyRow struct {
	bun.BaseModel `bun:"table:job_keys"`

	Name    string `bun:"name,pk"`
	ID      uint64 `bun:"id"`
	Created int64  `bun:"created"`
}

// bodyRow is a row of job_bodies.
type bodyRow struct {
	bun.BaseModel `bun:"table:job_bodies"`

	ID          uint64 `bun:"id,pk"`
	Message     string `bun:"message"`
	Key         string `bun:"okey"`
	URL         string `bun:"url"`
	ContentType string `bun:"content_type"`
	Data        []byte `bun:"data"`
	Created     int64  `bun:"created"`
	Deadline    int64  `bun:"deadline"`
}

func bodyRowOf(id uint64, b *JobBody) bodyRow {
	row := bodyRow{
		ID: id, Message: b.Message, Key: b.Key, URL: b.URL, ContentType: b.ContentType, Data: b.Data, Created: sqldb.Nanos(b.Created), Deadline: sqldb.Nanos(b.Deadline),
	}
	if row.Message == "" {
		row.Message = fmt.Sprintf("job:%d", id)
	}
	if row.Data == nil {
		row.Data = []byte{}
	}
	return row
}

func (r *bodyRow) body() *JobBody {
	return &JobBody{
		Message: r.Message, Key: r.Key, URL: r.URL, ContentType: r.ContentType, Data: r.Data, Created: sqldb.Time(r.Created), Deadline: sqldb.Time(r.Deadline),
	}
}

// enqueue writes jobs within a transaction, and says how many are new.
func enqueue(ctx context.Context, tx sqldb.Tx, jobs []NewJob, numbers []uint64) (map[Lane]int64, error) {
	first, err := takeNumbers(ctx, tx, len(jobs))
	if err != nil {
		return nil, err
	}
	counts := make(map[Lane]int64)
	seen := make(map[string]uint64)
	var rows []jobRow
	var bodies []bodyRow
	var keys []keyRow
	later := make(map[uint64]int64)
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
			keys = append(keys, keyRow{Name: job.Unique, ID: id, Created: sqldb.Nanos(job.Created)})
		}
		numbers[i] = id
		rows = append(rows, jobRow{id: id, lane: job.Lane.code(), okey: orderOf(job.Lane, job.Key)})
		bodies = append(bodies, bodyRowOf(id, &job.JobBody))
		if !job.RunAt.IsZero() {
			later[id] = dueOf(job.RunAt)
		}
		counts[job.Lane]++
	}
	if len(rows) == 0 {
		return counts, nil
	}
	if err := insertJobs(ctx, tx, rows); err != nil {
		return nil, err
	}
	for id, due := range later {
		if _, err := tx.NewRaw("UPDATE jobs SET due = ? WHERE id = ?", due, id).Exec(ctx); err != nil {
			return nil, err
		}
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

// knownKey returns the number of the job that an idempotency key was used for, 0 if there is none.
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

// recommitted counts the jobs anew after a transaction turned out to have been committed, and tells of them.
func (j *Jobs) recommitted(ctx context.Context) error {
	if j.store.config.Outbox == nil {
		return nil
	}
	j.doubted() // who settles meanwhile is counted twice, or not at all
	if err := j.recount(ctx); err != nil {
		return err
	}
	j.added(slices.Collect(maps.Keys(j.Depths())))
	return nil
}
