package store

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
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
)

// Claimed is what [Jobs.Claim] returns.
type Claimed struct {
	Jobs []Job     // by number
	More bool      // there may be more at once
	Next time.Time // when the next one that waits is due; zero if none does
}

// candidate is a job that a claim looks at.
type candidate struct {
	Job

	fresh bool
}

// Claim takes up to n jobs of a lane, those that have waited long enough before those that are new,
// and keeps others from taking them until the lease ends. What is not settled by then is there to
// be claimed again, so extend the lease of what takes longer ([Jobs.Extend]).
//
// Who claims sees to the order of jobs with the same key among those that he has; those behind a
// job that waits to be tried again, or behind one in a lane that their route led to before, are not
// given out before it is settled. So one process at a time may work on a lane. A job is taken by
// changing it under the condition that its claim number is still the one that was read, so two
// could never hold the same job.
func (j *Jobs) Claim(ctx context.Context, lane Lane, n int, now time.Time, lease time.Duration) (Claimed, error) {
	j.mu.Lock()
	j.claims++
	number, cursor := j.claims, j.cursors[lane]
	j.mu.Unlock()
	number |= j.db.Fence() << 32
	var out Claimed
	err := j.write(ctx, "claim jobs", func(ctx context.Context, tx sqldb.Tx) (err error) {
		if err = readByIndex(ctx, tx); err == nil {
			out, cursor, err = claim(ctx, tx, lane, n, now, dueOf(now.Add(lease)), number, cursor)
		}
		return err
	})
	if err != nil {
		return Claimed{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cursors[lane] = max(j.cursors[lane], cursor)
	return out, nil
}

// readByIndex keeps PostgreSQL from reading a whole lane to sort it. Its statistics of a table that is now full and now empty are mostly wrong:
// without it, a claim takes ten times as long.
func readByIndex(ctx context.Context, tx sqldb.Tx) error {
	if tx.Dialect().Name() != dialect.PG {
		return nil
	}
	_, err := tx.Tx.ExecContext(ctx, "SET LOCAL enable_sort = off")
	return err
}

func claim(
	ctx context.Context, tx sqldb.Tx, lane Lane, n int, now time.Time, until, number int64, cursor uint64,
) (Claimed, uint64, error) {
	seen, err := candidates(ctx, tx, lane, n, now, cursor)
	if err != nil {
		return Claimed{}, 0, err
	}
	limited, err := seen.limit(ctx, tx)
	if err != nil {
		return Claimed{}, 0, err
	}
	found, fresh := seen.due, seen.fresh
	out := Claimed{More: limited || len(found)+len(fresh) >= n}
	if len(found) < n {
		fresh = fresh[:min(len(fresh), n-len(found))]
		if !out.More {
			if err := tx.QueryRowContext(ctx, "SELECT last FROM job_numbers WHERE id = 1").Scan(&cursor); err != nil {
				return Claimed{}, 0, err
			}
		} else if len(fresh) > 0 {
			cursor = fresh[len(fresh)-1].ID
		}
		found = append(found, fresh...)
	}
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) })
	free, blocked := found, []uint64(nil)
	if seen.waits {
		if free, blocked, err = separate(ctx, tx, found, seen.into); err != nil {
			return Claimed{}, 0, err
		}
	}
	for chunk := range slices.Chunk(blocked, idsPerStatement) {
		if _, err := tx.NewRaw("UPDATE jobs SET claim = 0, due = ?, held = okey WHERE id IN (?)", int64(behind), bun.List(chunk)).Exec(ctx); err != nil {
			return Claimed{}, 0, err
		}
	}
	if free, err = take(ctx, tx, free, until, number, seen.keep); err != nil {
		return Claimed{}, 0, err
	}
	if out.Jobs, err = withBodies(ctx, tx, free); err != nil {
		return Claimed{}, 0, err
	}
	if !out.More {
		out.Next, err = nextDue(ctx, tx, lane)
	}
	return out, cursor, err
}

// idsPerStatement bounds how many jobs a statement names.
const idsPerStatement = 1000

// numbered is the condition that the number of a job is one of some. PostgreSQL reads an array in a tenth of the time that it takes for as many
// numbers by themselves.
func numbered(tx sqldb.Tx, ids []uint64) bun.Safe {
	before, after := "id IN (", ")"
	if tx.Dialect().Name() == dialect.PG {
		before, after = "id = ANY('{", "}')"
	}
	text := append(make([]byte, 0, len(before)+10*len(ids)), before...)
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, id, 10)
	}
	return bun.Safe(append(text, after...))
}

// view is what a claim finds in a lane.
type view struct {
	due, fresh []candidate // up to n jobs that have waited long enough, and up to n that nobody has looked at yet, by number
	waits      bool        // a job waits that holds others up
	into       []move      // from other lanes to this one
	keep       uint64      // jobs up to this one are waited for in other lanes
}

// candidates looks for jobs to claim. It says whether any job waits that holds others up: mostly
// none does, and then their keys need not be looked for, which takes as long as half of a claim.
//
// A job with a key that nobody has looked at yet, since it was to run at some instant, is not among
// the first until all are looked at that come before it.
func candidates(ctx context.Context, tx sqldb.Tx, lane Lane, n int, now time.Time, cursor uint64) (v view, err error) {
	const columns = "id, event, okey, claim, attempts"
	query := "SELECT " + columns + ", 0 FROM (SELECT " + columns + " FROM jobs WHERE lane = ? AND due <= ?" +
		" AND (id <= ? OR okey = 0 OR held IS NOT NULL) ORDER BY due, id LIMIT ?) due_jobs" +
		" UNION ALL SELECT " + columns + ", 1 FROM (SELECT " + columns + " FROM jobs WHERE lane = ? AND due IS NULL AND id > ?" +
		" ORDER BY id LIMIT ?) fresh_jobs" +
		" UNION ALL SELECT 0, 0, held, 0, 0, 2 FROM (" + anyHeld + ") held_jobs" +
		" UNION ALL SELECT upto, since, from_lane, to_lane, seen, 3 FROM job_moves"
	rows, err := tx.Tx.Tx.QueryContext(ctx, tx.Bind(query), lane.code(), sqldb.Nanos(now), int64(cursor), n, lane.code(), int64(cursor), n)
	if err != nil {
		return v, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		c, kind := candidate{Job: Job{Lane: lane}}, 0
		if err := rows.Scan(&c.ID, &c.Event, &c.Key, &c.Claim, &c.Attempts, &kind); err != nil {
			return v, err
		}
		switch kind {
		case 0:
			v.due = append(v.due, c)
		case 1:
			c.fresh = true
			v.fresh = append(v.fresh, c)
		case 2:
			v.waits = true
		default:
			v.add(move{upto: c.ID, since: c.Event, from: laneOf(c.Key), to: laneOf(c.Claim), seen: uint64(c.Attempts)}, lane)
		}
	}
	slices.SortFunc(v.fresh, func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) })
	return v, rows.Err()
}

// anyHeld gives a row if any job waits that holds others up.
const anyHeld = "SELECT held FROM jobs WHERE held IS NOT NULL ORDER BY held LIMIT 1"

// separate parts the jobs that may be begun from those that have to stay behind another one, which
// waits and is not among them, or is in a lane that a move came from.
func separate(ctx context.Context, tx sqldb.Tx, found []candidate, into []move) (free []candidate, blocked []uint64, err error) {
	keys := make(map[int64]bool, len(found))
	here := []uint64{0}
	for i := range found {
		if c := &found[i]; c.Key != 0 {
			keys[c.Key] = true
			if !c.fresh {
				here = append(here, c.ID)
			}
		}
	}
	first, err := firstHeld(ctx, tx, keys, here) // by key, the first job that waits
	if err != nil {
		return nil, nil, err
	}
	if err := barred(ctx, tx, into, keys, first); err != nil {
		return nil, nil, err
	}
	if len(first) == 0 {
		return found, nil, nil
	}
	for _, c := range found {
		if id, ok := first[c.Key]; ok && id < c.ID {
			blocked = append(blocked, c.ID)
		} else {
			free = append(free, c)
		}
	}
	return free, blocked, nil
}

// firstHeld returns, by key, the first job that holds others up. Some do not count.
func firstHeld(ctx context.Context, tx sqldb.Tx, keys map[int64]bool, without []uint64) (map[int64]uint64, error) {
	first := make(map[int64]uint64)
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(keys)), idsPerStatement) {
		where, args := "held IN (?)", []any{bun.List(chunk)}
		if len(without) > 0 {
			where, args = where+" AND id NOT IN (?)", append(args, bun.List(without))
		}
		err := sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
			var key int64
			var id uint64
			err := rows.Scan(&key, &id)
			first[key] = id
			return err
		}, "SELECT held, MIN(id) FROM jobs WHERE "+where+" GROUP BY held", args...)
		if err != nil {
			return nil, err
		}
	}
	return first, nil
}

// take makes the claim, and returns what it got. Those up to keep are found by their keys still.
func take(ctx context.Context, tx sqldb.Tx, found []candidate, until, number int64, keep uint64) ([]candidate, error) {
	held := "NULL"
	if keep > 0 {
		held = "CASE WHEN okey <> 0 AND id <= " + strconv.FormatUint(keep, 10) + " THEN okey END"
	}
	byClaim := make(map[int64][]uint64)
	for i := range found {
		byClaim[found[i].Claim] = append(byClaim[found[i].Claim], found[i].ID)
	}
	taken := int64(0)
	for old, ids := range byClaim {
		for chunk := range slices.Chunk(ids, idsPerStatement) {
			res, err := tx.NewRaw("UPDATE jobs SET claim = ?, due = ?, held = "+held+" WHERE ? AND claim = ?", number, until, numbered(tx, chunk), old).Exec(ctx)
			if err != nil {
				return nil, err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return nil, err
			}
			taken += n
		}
	}
	if taken != int64(len(found)) { // nobody else can write while our fence is the latest
		return nil, fmt.Errorf("%d of %d jobs could be taken: the database was changed behind our back", taken, len(found))
	}
	for i := range found {
		found[i].Claim = number
	}
	return found, nil
}

// smallBody is how many bytes a body may have to be read with the claim.
const smallBody = 4096

// withBodies returns the jobs with what they deliver, if that is small.
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
		var rows []bodyRow
		if err := tx.NewSelect().Model(&rows).Where("id IN (?) AND LENGTH(data) <= ?", bun.List(chunk), smallBody).Scan(ctx); err != nil {
			return nil, err
		}
		for i := range rows {
			jobs[at[rows[i].ID]].Body = rows[i].body()
		}
	}
	return jobs, nil
}

// nextDue returns when the next job that waits is due.
func nextDue(ctx context.Context, tx sqldb.Tx, lane Lane) (time.Time, error) {
	var due int64
	err := tx.QueryRowContext(ctx, "SELECT due FROM jobs WHERE lane = ? AND due IS NOT NULL ORDER BY due LIMIT 1", lane.code()).Scan(&due)
	if errors.Is(err, sql.ErrNoRows) || err == nil && due == behind {
		return time.Time{}, nil
	}
	return time.Unix(0, due), err
}

// Extend moves the ends of the leases of jobs that are still claimed under the same number.
func (j *Jobs) Extend(ctx context.Context, jobs []Job, until time.Time) error {
	return j.write(ctx, "extend the lease of jobs", func(ctx context.Context, tx sqldb.Tx) error {
		return updateClaimed(ctx, tx, "due = "+strconv.FormatInt(dueOf(until), 10), jobs)
	})
}

func byClaim(jobs []Job) map[int64][]uint64 {
	ids := make(map[int64][]uint64)
	for i := range jobs {
		ids[jobs[i].Claim] = append(ids[jobs[i].Claim], jobs[i].ID)
	}
	return ids
}

// EventsAt returns the events at some offsets, as far as they are kept, in the order of their offsets. It asks the database only for those
// that are not in memory.
func (s *Store) EventsAt(ctx context.Context, offsets []uint64) ([]liveness.Event, error) {
	offsets = slices.Compact(slices.Sorted(slices.Values(offsets)))
	events := make([]liveness.Event, 0, len(offsets))
	var elsewhere []uint64
	for _, offset := range offsets {
		if offset == 0 || offset > math.MaxInt64 {
			continue
		}
		got, err := s.log.Read(events, offset-1, 1)
		if err != nil || len(got) == len(events) || got[len(events)].Offset != offset {
			elsewhere = append(elsewhere, offset)
			continue
		}
		events = got
	}
	for chunk := range slices.Chunk(elsewhere, idsPerStatement) {
		var err error
		if events, err = s.query(ctx, events, "pos IN (?)", bun.List(chunk)); err != nil {
			return nil, err
		}
	}
	if len(elsewhere) > 0 {
		slices.SortFunc(events, func(a, b liveness.Event) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	return events, nil
}
