package store

import (
	"context"
	"database/sql"
	"errors"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"github.com/holter-iot/holter/sqldb"
)

// Jobs with the same ordering key are in order within their lane. A route's are in order also when
// the route is moved to another queue or endpoint, that is, from one lane to another: its first job
// there makes a *move*, in the transaction that writes the job. From then on the jobs of the new
// lane, from that one on, stay behind those of the old lane from before it that have the same key
// and are not done. Always a job waits for those with smaller numbers only, so no two wait for each
// other.
//
// What waits in the old lane is found by column held, as what waits in the lane itself is. So all
// jobs of the old lane from before the move have it, also the ones that are claimed or that nobody
// has looked at; those which were there at the move are given it by the claims of the new lane,
// some thousand at a time, and until they all have it, nothing that may have to wait is claimed
// there.

// orderOf returns the hash that stands for an ordering key in a lane; 0 for none. It is the same
// for all time; if two keys have the same, they share a line.
func orderOf(lane Lane, key string) int64 {
	if key == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return orderMark | (int64(h.Sum64()) ^ laneMask(lane))
}

// orderMark is in the hash of every key, so that it is never 0.
const orderMark = -1 << 63

// orderIn returns what an ordering key that has a hash in one lane has in another one.
func orderIn(okey int64, from, to Lane) int64 {
	return orderMark | (okey ^ laneMask(from) ^ laneMask(to))
}

// laneMask returns bits that differ in about half of their places for any two lanes (the finalizer
// of SplitMix64).
func laneMask(lane Lane) int64 {
	x := uint64(lane.code()) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int64(x ^ x>>31)
}

// move says that jobs of a lane wait for those of another one, where a route led before.
type move struct {
	from, to Lane
	upto     uint64 // the last job of from that is waited for
	since    uint64 // jobs of to up to this one do not wait
	seen     uint64 // all jobs of from up to this one have held
}

const moveColumns = "from_lane, to_lane, upto, since, seen"

func (m *move) scan(rows *sql.Rows) error {
	var from, to int64
	err := rows.Scan(&from, &to, &m.upto, &m.since, &m.seen)
	m.from, m.to = laneOf(from), laneOf(to)
	return err
}

// readMoves reads all moves. There are few, if any: those that lanes have jobs of from before.
func readMoves(ctx context.Context, tx sqldb.Tx) (moves []move, err error) {
	err = sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
		var m move
		err := m.scan(rows)
		moves = append(moves, m)
		return err
	}, "SELECT "+moveColumns+" FROM job_moves")
	return moves, err
}

// follow notes where the latest jobs of routes are in line, and the moves that this comes to. The
// first job has the number first; lanes says where the routes' jobs were before.
func follow(ctx context.Context, tx sqldb.Tx, jobs []EventJob, first uint64, lanes map[uint32]Lane) error {
	for i := range jobs {
		job := &jobs[i]
		if job.Route == 0 {
			continue
		}
		old, known := lanes[job.Route]
		switch {
		case !known:
			if _, err := tx.NewRaw("INSERT INTO route_lanes (route, lane) VALUES (?, ?)", job.Route, job.Lane.code()).Exec(ctx); err != nil {
				return err
			}
		case old != job.Lane:
			if _, err := tx.NewRaw("UPDATE route_lanes SET lane = ? WHERE route = ?", job.Lane.code(), job.Route).Exec(ctx); err != nil {
				return err
			}
			if err := addMoves(ctx, tx, old, job.Lane, first+uint64(i)-1); err != nil {
				return err
			}
		}
		lanes[job.Route] = job.Lane
	}
	return nil
}

// addMoves adds a move from one lane to another after a job. What the one waits for, the other
// waits for as well.
func addMoves(ctx context.Context, tx sqldb.Tx, from, to Lane, after uint64) error {
	moves, err := readMoves(ctx, tx)
	if err != nil {
		return err
	}
	add := []move{{from: from, to: to, upto: after, since: after}}
	for _, m := range moves {
		if m.to == from && m.from != to {
			add = append(add, move{from: m.from, to: to, upto: m.upto, since: after, seen: m.seen})
		}
	}
	for _, m := range add {
		i := slices.IndexFunc(moves, func(old move) bool { return old.from == m.from && old.to == m.to })
		if i >= 0 { // a job waits for more than it has to, but only for some from before it
			m.upto, m.since, m.seen = max(m.upto, moves[i].upto), min(m.since, moves[i].since), max(m.seen, moves[i].seen)
			_, err = tx.NewRaw("UPDATE job_moves SET upto = ?, since = ?, seen = ? WHERE from_lane = ? AND to_lane = ?",
				m.upto, m.since, m.seen, m.from.code(), m.to.code()).Exec(ctx)
		} else {
			_, err = tx.NewRaw("INSERT INTO job_moves ("+moveColumns+") VALUES (?, ?, ?, ?, ?)",
				m.from.code(), m.to.code(), m.upto, m.since, m.seen).Exec(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// seenStep is how many jobs, of any lane, are looked at at a time to find those of a lane.
const seenStep = 5000

// look gives some more jobs of the lane that a move comes from what the jobs of the other one find
// them by. Those that are to run later, and that nobody has looked at, hold nobody up.
func (m *move) look(ctx context.Context, tx sqldb.Tx) error {
	to := m.upto
	var ids []uint64
	err := tx.NewRaw("SELECT id FROM jobs WHERE id > ? AND id <= ? ORDER BY id LIMIT 1 OFFSET ?", m.seen, m.upto, seenStep).Scan(ctx, &ids)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		to = ids[0]
	}
	_, err = tx.NewRaw("UPDATE jobs SET held = okey, due = COALESCE(due, 0) WHERE id > ? AND id <= ? AND lane = ? AND okey <> 0 AND held IS NULL"+
		" AND (due IS NULL OR claim <> 0)", m.seen, to, m.from.code()).Exec(ctx)
	if err != nil {
		return err
	}
	m.seen = to
	_, err = tx.NewRaw("UPDATE job_moves SET seen = ? WHERE from_lane = ? AND to_lane = ?", to, m.from.code(), m.to.code()).Exec(ctx)
	return err
}

// add adds a move if it has to do with the lane.
func (v *view) add(m move, lane Lane) {
	if m.to == lane {
		v.into = append(v.into, m)
	}
	if m.from == lane {
		v.keep = max(v.keep, m.upto)
	}
}

// limit leaves out the jobs that may have to wait while not all jobs of other lanes have been
// looked at, and looks at some more of them.
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
		if v.waits = true; m.seen < m.upto {
			last, limited = min(last, m.since), true
		}
	}
	if !limited {
		return false, nil
	}
	after := func(c candidate) bool { return c.ID > last }
	v.due, v.fresh = slices.DeleteFunc(v.due, after), slices.DeleteFunc(v.fresh, after)
	return true, nil
}

// barred adds to the first job that each key waits behind in its lane what it has to wait for in
// the lanes that moves come from: such a job's number, or that of the last one of its own lane that
// does not wait.
func barred(ctx context.Context, tx sqldb.Tx, into []move, keys map[int64]bool, first map[int64]uint64) error {
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

// releaseElsewhere lets the first jobs be claimed that were behind jobs which are gone, in other
// lanes, and returns these. first are, by key, the first jobs that hold others up where the gone
// ones were.
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
			return next != 0 && m.bars(next, id)
		})
		if err := begin(ctx, tx, there); err != nil {
			return nil, err
		}
		lanes = append(lanes, m.to)
	}
	return lanes, nil
}

// bars says whether a job of the one lane has to be done before one with the same key of the other.
func (m *move) bars(old, id uint64) bool { return old <= m.upto && old < id && id > m.since }

// forgetMoves removes the moves from lanes which have no jobs any more that others wait for.
func forgetMoves(ctx context.Context, tx sqldb.Tx) error {
	moves, err := readMoves(ctx, tx)
	if err != nil {
		return err
	}
	for i := range moves {
		m := &moves[i]
		if m.seen < m.upto { // perhaps nobody claims where it leads to
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
		_, err = tx.NewRaw("DELETE FROM job_moves WHERE from_lane = ? AND to_lane = ?", m.from.code(), m.to.code()).Exec(ctx)
		if err != nil {
			return err
		}
	}
	return nil
}
