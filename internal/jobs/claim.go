package jobs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Claimed is the result of [Store.Claim].
type Claimed struct {
	Jobs []Job     // by number
	More bool      // there may be more that can be claimed now
	Next time.Time // when the next waiting job is due; zero if none waits
}

// Claim takes up to n jobs of a lane, and keeps others from taking them until the lease ends. A job that is
// not acked by then can be claimed again, see [Store.Extend]. Jobs of some shares (see [Store.Shares]) may be
// left out. The order:
//
//  1. New jobs of high priority; their names take turns.
//  2. New jobs of normal priority; their names take turns, too. Retries and jobs without a name share one turn,
//     retries first.
//
// The caller keeps the order among the jobs that it has claimed and that have the same key. A job is
// not given out while one before it with its key waits for a retry, or is in a lane where their route
// led before. So only one process at a time may work on a lane. A job is taken under the condition
// that its claim number has not changed since it was read, so no two callers ever have the same job.
func (s *Store) Claim(ctx context.Context, lane Lane, n int, now time.Time, lease time.Duration, without ...uint16) (Claimed, error) {
	s.mu.Lock()
	s.claims++
	c := claim{
		lane: lane, n: n, now: now, until: dueOf(now.Add(lease)), number: s.db.Fence()<<claimBits | s.claims, cursor: s.cursors[lane],
		others: !slices.Contains(without, 0),
	}
	c.shares, c.more = s.takeSharesLocked(lane, without)
	s.mu.Unlock()
	var out Claimed
	err := s.write(ctx, "claim jobs", func(ctx context.Context, tx sqldb.Tx) (err error) {
		out, err = c.run(ctx, tx)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.offerLocked(lane, c.shares)
		return Claimed{}, err
	}
	s.offerLocked(lane, c.left)
	s.cursors[lane] = max(s.cursors[lane], c.seen)
	return out, nil
}

// claim is one call of Claim.
type claim struct {
	lane   Lane
	n      int
	now    time.Time
	until  int64    // end of the lease
	number int64    // of the claim
	cursor uint64   // jobs up to this one are not new
	shares []uint16 // that it looks at
	others bool     // it looks at share 0
	more   bool     // there are shares that it does not look at
	seen   uint64   // the next cursor
	left   []uint16 // shares that may have more
}

// candidate is a job that may be claimed.
type candidate struct {
	Job

	isNew bool
}

// view is what a claim finds in a lane.
type view struct {
	due, fresh []candidate   // up to n jobs each of share 0: those that were due, and new ones
	named      [][]candidate // new jobs of the other shares, up to claim.each of each
	full       []bool        // shares of named that may have more
	blocking   bool          // a job that blocks others may exist
	into       []move        // from other lanes to this one
	keep       uint64        // jobs up to this one block jobs of other lanes
}

func (c *claim) run(ctx context.Context, tx sqldb.Tx) (Claimed, error) {
	c.seen = c.cursor
	v, err := c.look(ctx, tx)
	if err != nil {
		return Claimed{}, err
	}
	limited, err := v.limit(ctx, tx)
	if err != nil {
		return Claimed{}, err
	}
	if limited {
		c.left = slices.Clone(c.shares)
	}
	high := c.pickHigh(&v)
	others, more := c.pickOthers(&v, c.n-len(high))
	if c.others && !more && !limited {
		if c.seen, err = lastNumber(ctx, tx); err != nil {
			return Claimed{}, err
		}
	}
	found, moreNamed := c.pickNamed(&v, append(high, others...))
	out := Claimed{More: limited || more || moreNamed || c.more}
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) })
	if v.blocking {
		if found, err = block(ctx, tx, found, v.into); err != nil {
			return Claimed{}, err
		}
	}
	if err := c.takeJobs(ctx, tx, found, v.keep); err != nil {
		return Claimed{}, err
	}
	if out.Jobs, err = withBodies(ctx, tx, found); err != nil || out.More {
		return out, err
	}
	out.Next, err = nextDue(ctx, tx, c.lane)
	return out, err
}

// each returns how many jobs of each share but 0 a claim looks at.
func (c *claim) each() int { return (c.n + len(c.shares) - 1) / max(len(c.shares), 1) }

// pickHigh returns jobs of high priority to be claimed, and takes them out of the view.
func (c *claim) pickHigh(v *view) []candidate {
	found := c.pick(PriorityHigh, c.free(v), nil)
	taken := make(map[uint64]bool, len(found))
	for i := range found {
		taken[found[i].ID] = true
	}
	for k := range v.named {
		v.named[k] = slices.DeleteFunc(v.named[k], func(job candidate) bool { return taken[job.ID] })
	}
	return found
}

// pickOthers returns up to n jobs of share 0 to be claimed: those that were due first, then new ones. more
// reports whether there may be others that could be claimed now.
func (c *claim) pickOthers(v *view, n int) (found []candidate, more bool) {
	all := len(v.due) + len(v.fresh)
	reach := c.seen // at most
	switch {
	case c.others && all < c.n:
		reach = math.MaxUint64
	case len(v.fresh) > 0:
		reach = v.fresh[len(v.fresh)-1].ID
	}
	named := 0
	for k, list := range v.named {
		for i := range list {
			named += sqldb.Bool((list[i].Key == 0 || list[i].ID <= reach) && priorityOf(c.shares[k]) != PriorityLow)
		}
	}
	room := min(max(n-named, n/(len(c.shares)+1), 1), n) // a turn at least
	due := v.due[:min(len(v.due), room)]
	fresh := v.fresh[:min(len(v.fresh), room-len(due))]
	if len(fresh) > 0 {
		c.seen = fresh[len(fresh)-1].ID
	}
	return slices.Concat(due, fresh), c.others && (all >= c.n || all > len(due)+len(fresh))
}

// pickNamed adds jobs of the other shares, each in turn, those of a higher priority first.
func (c *claim) pickNamed(v *view, found []candidate) (all []candidate, more bool) {
	free := c.free(v)
	for k, list := range free {
		more = more || v.full[k] && len(list) > 0
		if v.full[k] || len(list) < len(v.named[k]) {
			c.left = append(c.left, c.shares[k])
		}
	}
	for p := PriorityHigh; p >= PriorityLow; p-- {
		found = c.pick(p, free, found)
	}
	for k, list := range free {
		if len(list) > 0 {
			more, c.left = true, append(c.left, c.shares[k])
		}
	}
	return found, more
}

// free returns the jobs of the shares but 0 that may be claimed. A job with a key is left out if a new job
// without a name, which was not looked at yet, may be before it and have its key.
func (c *claim) free(v *view) [][]candidate {
	free := make([][]candidate, len(v.named))
	for k, list := range v.named {
		for _, job := range list {
			if job.Key == 0 || job.ID <= c.seen {
				free[k] = append(free[k], job)
			}
		}
	}
	return free
}

// pick adds free jobs of a priority to found, one of each share in turn.
func (c *claim) pick(p Priority, free [][]candidate, found []candidate) []candidate {
	for some := true; some; {
		some = false
		for k, list := range free {
			if len(list) > 0 && len(found) < c.n && priorityOf(c.shares[k]) == p {
				found, free[k], some = append(found, list[0]), list[1:], true
			}
		}
	}
	return found
}

// idsPerStatement is the maximum number of jobs in a statement.
const idsPerStatement = 1000

// look finds the jobs that may be claimed, and whether any job blocks others. Mostly none does, and
// then the keys need not be compared, which takes half of the time of a claim.
//
// A new job with a key that was enqueued to run later comes with the due ones only when all jobs
// before it are not new any more.
func (c *claim) look(ctx context.Context, tx sqldb.Tx) (v view, err error) {
	if tx.Postgres() {
		// PostgreSQL would read a whole lane to sort it, since its statistics of a table that is full
		// at one time and empty at another are mostly wrong. A claim would take ten times as long.
		if _, err := tx.Exec(ctx, "SET LOCAL enable_sort = off"); err != nil {
			return v, err
		}
	}
	query, args := c.query()
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return v, err
	}
	defer func() { _ = rows.Close() }()
	v.named = make([][]candidate, len(c.shares))
	for rows.Next() {
		job, kind := candidate{Job: Job{Lane: c.lane}}, 0
		if err := rows.Scan(&job.ID, &job.Event, &job.Key, &job.Claim, &job.Attempts, &kind); err != nil {
			return v, err
		}
		switch kind {
		case dueJob:
			v.due = append(v.due, job)
		case freshJob:
			job.isNew = true
			v.fresh = append(v.fresh, job)
		case heldJob:
			v.blocking = true
		case aMove:
			v.add(move{upto: job.ID, since: job.Event, from: laneOf(job.Key), to: laneOf(job.Claim), seen: uint64(job.Attempts)}, c.lane)
		default:
			job.Share = uint16(kind - aMove)
			k := slices.Index(c.shares, job.Share)
			v.named[k] = append(v.named[k], job)
		}
	}
	byID := func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(v.fresh, byID)
	v.full = make([]bool, len(v.named))
	for k, list := range v.named {
		slices.SortFunc(list, byID)
		v.full[k] = len(list) == c.each()
	}
	return v, rows.Err()
}

// The kinds of rows that a claim reads. Those of new jobs with names are aMove and the share.
const (
	dueJob = iota
	freshJob
	heldJob
	aMove
)

// query returns the query of look.
func (c *claim) query() (query string, args []any) {
	const (
		columns = "id, event, okey, claim, attempts"
		rest    = "SELECT 0, 0, held, 0, 0, 2 FROM (" + anyHeld + ") held_jobs UNION ALL SELECT upto, since, from_lane, to_lane, seen, 3 FROM job_moves"
		others  = " UNION ALL SELECT " + columns + ", 0 FROM (SELECT " + columns + " FROM jobs WHERE lane = ? AND due >= 0 AND due <= ?" +
			" AND (id <= ? OR okey = 0 OR held IS NOT NULL) ORDER BY due, id LIMIT ?) due_jobs" +
			" UNION ALL SELECT " + columns + ", 1 FROM (SELECT " + columns + " FROM jobs WHERE lane = ? AND due IS NULL AND id > ?" +
			" ORDER BY id LIMIT ?) fresh_jobs"
		named = " UNION ALL SELECT " + columns + ", 3 - due FROM (SELECT " + columns + ", due FROM jobs WHERE lane = ? AND due = ? ORDER BY id LIMIT ?) named_jobs"
	)
	query = rest
	lane, cursor := c.lane.code(), int64(c.cursor)
	if c.others {
		query, args = query+others, append(args, lane, sqldb.Nanos(c.now), cursor, c.n, lane, cursor, c.n)
	}
	for _, share := range c.shares {
		args = append(args, lane, dueInShare(share), c.each())
	}
	return query + strings.Repeat(named, len(c.shares)), args
}

// anyHeld selects a row if any job blocks others.
const anyHeld = "SELECT held FROM jobs WHERE held IS NOT NULL ORDER BY held LIMIT 1"

// block blocks the jobs that come after one with the same key which waits and was not found, or which
// is in a lane that a move came from. It returns the others.
func block(ctx context.Context, tx sqldb.Tx, found []candidate, into []move) (free []candidate, err error) {
	keys := make(map[int64]bool, len(found))
	here := []uint64{0}
	for i := range found {
		if c := &found[i]; c.Key != 0 {
			keys[c.Key] = true
			if !c.isNew {
				here = append(here, c.ID)
			}
		}
	}
	first, err := firstHeld(ctx, tx, keys, here)
	if err != nil {
		return nil, err
	}
	if err := addMoved(ctx, tx, into, keys, first); err != nil {
		return nil, err
	}
	if len(first) == 0 {
		return found, nil
	}
	var behind []uint64
	for _, c := range found {
		if id, ok := first[c.Key]; ok && id < c.ID {
			behind = append(behind, c.ID)
		} else {
			free = append(free, c)
		}
	}
	for chunk := range slices.Chunk(behind, idsPerStatement) {
		_, err := tx.Exec(ctx, "UPDATE jobs SET claim = 0, due = ?, held = okey WHERE id IN (?)", int64(blocked), sqldb.Ints(chunk))
		if err != nil {
			return nil, err
		}
	}
	return free, nil
}

// firstHeld returns, by key, the number of the first job that blocks others, without some jobs.
func firstHeld(ctx context.Context, tx sqldb.Tx, keys map[int64]bool, without []uint64) (map[int64]uint64, error) {
	first := make(map[int64]uint64)
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(keys)), idsPerStatement) {
		where, args := "held IN (?)", []any{chunk}
		if len(without) > 0 {
			where, args = where+" AND id NOT IN (?)", append(args, sqldb.Ints(without))
		}
		some, err := sqldb.Pairs[int64, uint64](ctx, tx, "SELECT held, MIN(id) FROM jobs WHERE "+where+" GROUP BY held", args...)
		if err != nil {
			return nil, err
		}
		maps.Copy(first, some)
	}
	return first, nil
}

// takeJobs claims jobs. Those up to keep still block jobs of other lanes.
func (c *claim) takeJobs(ctx context.Context, tx sqldb.Tx, found []candidate, keep uint64) error {
	byClaim := make(map[int64][]uint64)
	for i := range found {
		byClaim[found[i].Claim] = append(byClaim[found[i].Claim], found[i].ID)
		found[i].Claim = c.number
	}
	taken := int64(0)
	for old, ids := range byClaim {
		for chunk := range slices.Chunk(ids, idsPerStatement) {
			n, err := tx.Exec(ctx, "UPDATE jobs SET claim = ?, due = ?, held = CASE WHEN okey <> 0 AND id <= ? THEN okey END WHERE id IN (?) AND claim = ?",
				c.number, c.until, keep, sqldb.Ints(chunk), old)
			if err != nil {
				return err
			}
			taken += n
		}
	}
	if taken != int64(len(found)) { // which the fence rules out
		return fmt.Errorf("%d of %d jobs could be taken: another program has changed the database", taken, len(found))
	}
	return nil
}

// smallBody is the maximum size of a body that is read with the claim.
const smallBody = 4096

// withBodies returns the jobs with their names, and their bodies as far as these are small.
func withBodies(ctx context.Context, tx sqldb.Tx, found []candidate) ([]Job, error) {
	jobs := make([]Job, len(found))
	at := make(map[uint64]int)
	var ids []uint64
	for i := range found {
		jobs[i] = found[i].Job
		if jobs[i].Event == 0 {
			at[jobs[i].ID] = i
			ids = append(ids, jobs[i].ID)
		}
	}
	for chunk := range slices.Chunk(ids, idsPerStatement) {
		rows, err := sqldb.All(ctx, tx, (*bodyRow).fields, "SELECT id, "+bodyColumns+", CASE WHEN LENGTH(data) <= ? THEN data END FROM job_bodies WHERE id IN (?)",
			smallBody, sqldb.Ints(chunk))
		if err != nil {
			return nil, err
		}
		for i := range rows {
			job := &jobs[at[rows[i].ID]]
			if job.Name, job.Priority = rows[i].Name, rows[i].Priority; rows[i].Data != nil {
				job.Body = &rows[i].Body
			}
		}
	}
	return jobs, nil
}

// nextDue returns when the next waiting job of a lane is due; zero if none waits.
func nextDue(ctx context.Context, tx sqldb.Tx, lane Lane) (time.Time, error) {
	var due int64
	err := tx.QueryRowContext(ctx, "SELECT due FROM jobs WHERE lane = ? AND due >= 0 ORDER BY due LIMIT 1", lane.code()).Scan(&due)
	if errors.Is(err, sql.ErrNoRows) || err == nil && due == blocked {
		return time.Time{}, nil
	}
	return time.Unix(0, due), err
}

// Extend sets the ends of the leases of jobs, as far as they are still claimed under the same number.
func (s *Store) Extend(ctx context.Context, jobs []Job, until time.Time) error {
	return s.write(ctx, "extend the leases of jobs", func(ctx context.Context, tx sqldb.Tx) error {
		return updateClaimed(ctx, tx, "due = "+strconv.FormatInt(dueOf(until), 10), jobs)
	})
}
