package jobs

import (
	"context"
	"database/sql"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// Move moves jobs that were enqueued, and whose names match a pattern, to a queue, and returns how many.
// Their endpoints stay, and so does the order of each key, also among jobs that were moved and others.
// Jobs that are being delivered stay where they are, as do those of events and those enqueued
// meanwhile. It works in transactions of a bounded size: after an error, call it again for the rest.
// Errors: ErrBad for the pattern; [ErrUnknown] for a queue that does not exist.
func (s *Store) Move(ctx context.Context, pattern string, queue uint32) (int, error) {
	if err := checkPattern(pattern); err != nil {
		return 0, err
	}
	total := 0
	ordered := make(map[Lane]bool)
	_, err := s.inSteps(ctx, "move jobs", Filter{}, func(ctx context.Context, tx sqldb.Tx, where string, args []any) (st step, err error) {
		if err := exists(ctx, tx, "queues", queue); err != nil {
			return st, err
		}
		rows, err := readMovable(ctx, tx, where, args)
		if err != nil || len(rows) == 0 {
			return st, err
		}
		st = step{n: len(rows), last: rows[len(rows)-1].id, counts: make(map[Lane]int64)}
		var some []movable
		for _, r := range rows {
			if r.lane.Queue != queue && liveness.Match(pattern, r.name.String) {
				some = append(some, r)
			}
		}
		for _, r := range some {
			to := Lane{Queue: queue, Endpoint: r.lane.Endpoint}
			st.counts[r.lane]--
			st.counts[to]++
			if !ordered[r.lane] {
				ordered[r.lane] = true
				if err := keepOrder(ctx, tx, r.lane, to); err != nil {
					return st, err
				}
			}
		}
		st.wake = lanesOf(st.counts)
		total += len(some)
		return st, s.shift(ctx, tx, some, queue)
	})
	return total, err
}

// movable is a job that is not claimed.
type movable struct {
	id   uint64
	lane Lane
	okey int64
	due  sql.NullInt64
	held sql.NullInt64
	name sql.NullString
	rank sql.NullInt16 // its priority
}

func readMovable(ctx context.Context, tx sqldb.Tx, where string, args []any) (list []movable, err error) {
	err = sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
		var r movable
		err := rows.Scan(&r.id, &r.lane, &r.okey, &r.due, &r.held, &r.name, &r.rank)
		list = append(list, r)
		return err
	}, "SELECT id, lane, okey, due, held, (SELECT name FROM job_bodies WHERE job_bodies.id = jobs.id),"+
		" (SELECT priority FROM job_bodies WHERE job_bodies.id = jobs.id) FROM jobs WHERE "+where+
		" AND event = 0 AND claim = 0 ORDER BY id LIMIT ?", append(args, idsPerStatement)...)
	return list, err
}

// keepOrder makes the jobs of two lanes wait for each other by their numbers: those that are moved for
// those that stay, and those that stay for those that were moved. The moved ones are also to wait for new
// ones of their lane that were not looked at yet.
func keepOrder(ctx context.Context, tx sqldb.Tx, from, to Lane) error {
	last, err := lastNumber(ctx, tx)
	if err != nil {
		return err
	}
	for _, m := range []move{{from: from, to: to}, {from: to, to: from}, {from: to, to: to}} {
		m.upto = last
		if err := addMoves(ctx, tx, m); err != nil {
			return err
		}
	}
	return nil
}

// shift gives jobs another queue. Those that wait for others are found by claims, which make them wait
// again if they have to.
func (s *Store) shift(ctx context.Context, tx sqldb.Tx, list []movable, queue uint32) error {
	const query = "UPDATE jobs SET lane = ?, okey = ?, due = ?, held = ? WHERE id = ?"
	return tx.Repeat(ctx, query, len(list), func(args []any, i int) []any {
		r := &list[i]
		to := Lane{Queue: queue, Endpoint: r.lane.Endpoint}
		okey, due, held := int64(0), r.due.Int64, any(nil)
		later := due > 0 && due < blocked
		if !later {
			share := shareOf(r.name.String, Priority(r.rank.Int16))
			due = dueInShare(share)
			if share != 0 {
				s.offer(to, share)
			}
		}
		if r.okey != 0 {
			okey = orderIn(r.okey, r.lane, to)
			if !later || r.held.Valid { // else it is to run later for the first time, and blocks no others
				held = okey
			}
		}
		return append(args, to.code(), okey, due, held, int64(r.id))
	})
}
