package jobs

import (
	"context"
	"database/sql"
	"errors"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Jobs with the same ordering key are in order within their lane. Those of a route are in order also
// when the route moves from one lane to another, because its queue or endpoint was changed: the first
// job in the new lane makes a *move*, in the transaction that writes the job. From then on a job of
// the new lane, from that one on, waits for the jobs of the old lane which are older than the move
// and have the same key. A job always waits for smaller numbers only, so no two jobs wait for each
// other. Changes of job routes make moves, too, before the first job goes by them, and so does
// [Store.Move], in both directions.
//
// Jobs of the old lane are found by the column held, as those of the same lane are. So all of them
// that are older than the move have it, even while they are claimed or new. Those that existed at the
// move are given it by the claims of the new lane, some thousand at a time. Until all have it, no job
// of the new lane is claimed that may have to wait.

// orderMark is set in each hash of a key, so that none is 0.
const orderMark = -1 << 63

// orderOf returns the hash of an ordering key in a lane; 0 for no key. It must never change, since it
// is stored. Two keys with the same hash are delivered in one order.
func orderOf(lane Lane, key string) int64 {
	if key == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return orderMark | (int64(h.Sum64()) ^ laneMask(lane))
}

// orderIn converts the hash of a key in one lane to that of the same key in another lane.
func orderIn(okey int64, from, to Lane) int64 {
	return orderMark | (okey ^ laneMask(from) ^ laneMask(to))
}

// laneMask returns bits about half of which differ between any two lanes (the finalizer of
// SplitMix64).
func laneMask(lane Lane) int64 {
	x := uint64(lane.code()) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int64(x ^ x>>31)
}

// move makes jobs of a lane wait for jobs of another lane, where a route led before.
type move struct {
	from, to Lane
	upto     uint64 // the last job of from that is waited for
	since    uint64 // jobs of to up to this one do not wait
	seen     uint64 // all jobs of from up to this one have held
}

const moveColumns = "from_lane, to_lane, upto, since, seen"

func (m *move) fields() []any { return []any{&m.from, &m.to, &m.upto, &m.since, &m.seen} }

// readMoves reads all moves. They are few, and none once the jobs from before them are gone.
func readMoves(ctx context.Context, tx sqldb.Tx) ([]move, error) {
	return sqldb.All(ctx, tx, (*move).fields, "SELECT "+moveColumns+" FROM job_moves")
}

// follow stores the lanes that routes lead to, and the moves if they have changed. first is the number
// of the first job.
func follow(ctx context.Context, tx sqldb.Tx, jobs []routed, first uint64) error {
	lanes, err := lanesOfRoutes(ctx, tx, jobs)
	if err != nil {
		return err
	}
	for i := range jobs {
		job := &jobs[i]
		old, known := lanes[job.route]
		switch {
		case !known:
			_, err = tx.Exec(ctx, "INSERT INTO route_lanes (route, lane) VALUES (?, ?)", job.route, job.lane)
		case old != job.lane:
			_, err = tx.Exec(ctx, "UPDATE route_lanes SET lane = ? WHERE route = ?", job.lane, job.route)
			if err == nil {
				last := first + uint64(i) - 1
				err = addMoves(ctx, tx, move{from: old, to: job.lane, upto: last, since: last})
			}
		}
		if err != nil {
			return err
		}
		lanes[job.route] = job.lane
	}
	return nil
}

// lanesOfRoutes returns the lanes of the latest jobs of the routes that jobs are from.
func lanesOfRoutes(ctx context.Context, tx sqldb.Tx, jobs []routed) (map[uint32]Lane, error) {
	routes := make(map[uint32]bool)
	for i := range jobs {
		routes[jobs[i].route] = true
	}
	return sqldb.Pairs[uint32, Lane](ctx, tx, "SELECT route, lane FROM route_lanes WHERE route IN (?)", sqldb.Ints(slices.Collect(maps.Keys(routes))))
}

// addMoves adds a move. The new lane also waits for what the old lane waits for.
func addMoves(ctx context.Context, tx sqldb.Tx, added move) error {
	moves, err := readMoves(ctx, tx)
	if err != nil {
		return err
	}
	add := []move{added}
	for _, m := range moves {
		if m.to == added.from && m.from != added.from && m.from != added.to {
			add = append(add, move{from: m.from, to: added.to, upto: m.upto, since: added.since, seen: m.seen})
		}
	}
	for _, m := range add {
		i := slices.IndexFunc(moves, func(old move) bool { return old.from == m.from && old.to == m.to })
		if i >= 0 { // merged, a job may wait for more than it has to, but still only for smaller numbers
			m.upto, m.since, m.seen = max(m.upto, moves[i].upto), min(m.since, moves[i].since), max(m.seen, moves[i].seen)
			_, err = tx.Exec(ctx, "UPDATE job_moves SET upto = ?, since = ?, seen = ? WHERE from_lane = ? AND to_lane = ?",
				m.upto, m.since, m.seen, m.from, m.to)
		} else {
			_, err = tx.Exec(ctx, sqldb.InsertInto("job_moves", moveColumns), m.fields()...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookStep is how many jobs, of any lane, one look goes through.
const lookStep = 5000

// lookEnd returns the last number of a look at the jobs after a number, up to another one.
func lookEnd(ctx context.Context, tx sqldb.Tx, after, upto uint64) (uint64, error) {
	end := upto
	err := tx.QueryRowContext(ctx, "SELECT id FROM jobs WHERE id > ? AND id <= ? ORDER BY id LIMIT 1 OFFSET ?", after, upto, lookStep).Scan(&end)
	if errors.Is(err, sql.ErrNoRows) {
		return upto, nil
	}
	return end, err
}

// look sets held of some more jobs of the old lane. New jobs that are to run later are left out, since
// they block no others.
func (m *move) look(ctx context.Context, tx sqldb.Tx) error {
	to, err := lookEnd(ctx, tx, m.seen, m.upto)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE jobs SET held = okey, due = COALESCE(due, 0) WHERE id > ? AND id <= ? AND lane = ? AND okey <> 0 AND held IS NULL"+
		" AND (due IS NULL OR claim <> 0)", m.seen, to, m.from)
	if err != nil {
		return err
	}
	m.seen = to
	_, err = tx.Exec(ctx, "UPDATE job_moves SET seen = ? WHERE from_lane = ? AND to_lane = ?", to, m.from, m.to)
	return err
}

// add adds a move if it concerns the lane.
func (v *view) add(m move, lane Lane) {
	if m.to == lane {
		v.into = append(v.into, m)
	}
	if m.from == lane {
		v.keep = max(v.keep, m.upto)
	}
}

// limit removes the jobs that may have to wait while not all jobs of other lanes have held, and sets
// it for some more of these.
func (v *view) limit(ctx context.Context, tx sqldb.Tx) (limited bool, err error) {
	last := uint64(math.MaxUint64)
	for i := range v.into {
		m := &v.into[i]
		if m.seen == m.upto {
			continue
		}
		if err := m.look(ctx, tx); err != nil {
			return false, err
		}
		if v.blocking = true; m.seen < m.upto {
			last, limited = min(last, m.since), true
		}
	}
	if !limited {
		return false, nil
	}
	after := func(c candidate) bool { return c.ID > last }
	v.due, v.fresh = slices.DeleteFunc(v.due, after), slices.DeleteFunc(v.fresh, after)
	for k := range v.named {
		v.named[k] = slices.DeleteFunc(v.named[k], after)
	}
	return true, nil
}

// addMoved lowers first, the number of the first job by key that blocks others in a lane, where a job
// in a lane that a move came from blocks earlier: to the number of that job, or to that of the last
// job of this lane that does not wait for the move.
func addMoved(ctx context.Context, tx sqldb.Tx, into []move, keys map[int64]bool, first map[int64]uint64) error {
	for i := range into {
		m := &into[i]
		there := make(map[int64]bool, len(keys))
		for key := range keys {
			there[orderIn(key, m.to, m.from)] = true
		}
		found, err := firstHeld(ctx, tx, there, nil)
		if err != nil {
			return err
		}
		for okey, id := range found {
			if id > m.upto {
				continue
			}
			key := orderIn(okey, m.from, m.to)
			if old, ok := first[key]; !ok || max(id, m.since) < old {
				first[key] = max(id, m.since)
			}
		}
	}
	return nil
}

// releaseElsewhere lets the first jobs of other lanes be claimed that jobs blocked which are gone, and
// returns their lanes. first has, by key, the jobs that still block others in the lanes of the gone
// ones.
func releaseElsewhere(ctx context.Context, tx sqldb.Tx, gone []Job, first map[int64]uint64) (lanes []Lane, err error) {
	moves, err := readMoves(ctx, tx)
	if err != nil {
		return nil, err
	}
	for i := range moves {
		m := &moves[i]
		keys := make(map[int64]bool)
		for k := range gone {
			if job := &gone[k]; job.Key != 0 && job.Lane == m.from {
				keys[orderIn(job.Key, m.from, m.to)] = true
			}
		}
		if len(keys) == 0 {
			continue
		}
		there, err := firstHeld(ctx, tx, keys, nil)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(there, func(key int64, id uint64) bool {
			next := first[orderIn(key, m.to, m.from)]
			return next != 0 && m.blocks(next, id)
		})
		if err := unblock(ctx, tx, there); err != nil {
			return nil, err
		}
		lanes = append(lanes, m.to)
	}
	return lanes, nil
}

// blocks reports whether a job of the old lane must be gone before one with the same key of the new
// lane is delivered.
func (m *move) blocks(old, id uint64) bool { return old <= m.upto && old < id && id > m.since }

// forgetMoves deletes the moves from lanes that have no jobs any more for which others wait.
func forgetMoves(ctx context.Context, tx sqldb.Tx) error {
	moves, err := readMoves(ctx, tx)
	if err != nil {
		return err
	}
	for i := range moves {
		m := &moves[i]
		if m.seen < m.upto { // there may be no claims of the new lane that do this
			if err := m.look(ctx, tx); err != nil {
				return err
			}
			continue
		}
		var id uint64
		err := tx.QueryRowContext(ctx, "SELECT id FROM jobs WHERE lane = ? AND due IS NOT NULL AND id <= ? AND held IS NOT NULL LIMIT 1",
			m.from.code(), m.upto).Scan(&id)
		if err == nil {
			continue
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM job_moves WHERE from_lane = ? AND to_lane = ?", m.from, m.to)
		if err != nil {
			return err
		}
	}
	return nil
}
