package cron

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/sqldb"
)

// claimable is the condition of a run r that may be claimed: its time has come, or the clock was set
// back since it was made; and the runs that it waits for have ended.
const claimable = "r.state = ? AND (r.ready <= ? OR r.scheduled > ?) AND (r.serial = 0 OR NOT EXISTS (SELECT 1 FROM schedule_runs o " +
	"WHERE o.schedule = r.schedule AND o.ended = 0 AND (o.state <> ? OR o.id < r.id)))"

func claimArgs(now time.Time) []any {
	return []any{Idle, sqldb.Nanos(now), sqldb.Nanos(now), Idle}
}

// claimedRun is a run with its schedule.
type claimedRun struct {
	Run

	Of Schedule
}

// Claim takes up to n waiting runs of some kinds for the owner until the lease ends, the one that has
// waited longest first. The owner must not be empty.
func (t *table) Claim(ctx context.Context, kinds []string, n int, owner string, now time.Time, lease time.Duration) (claimed []claimedRun, err error) {
	if n < 1 || len(kinds) == 0 {
		return nil, nil
	}
	err = t.db.Write(ctx, "claim runs of schedules", func(ctx context.Context, tx sqldb.Tx) error {
		claimed = nil
		var runs []Run
		err := tx.NewRaw("SELECT r.* FROM schedule_runs r WHERE "+claimable+" AND r.kind IN (?) ORDER BY r.ready, r.id LIMIT ?",
			append(claimArgs(now), bun.List(kinds), n)...).Scan(ctx, &runs)
		if err != nil {
			return err
		}
		for _, run := range runs {
			run.State, run.Owner, run.Lease = Claimed, owner, now.Add(lease)
			ok, err := changedOne(tx.NewRaw("UPDATE schedule_runs SET state = ?, owner = ?, lease = ?, claim = claim + 1 WHERE id = ? AND claim = ? AND state = ?",
				run.State, owner, sqldb.Nanos(run.Lease), run.ID, run.Claim, Idle).Exec(ctx))
			if err != nil {
				return err
			}
			var of scheduleRow
			if err := tx.NewSelect().Model(&of).Where("num = ?", run.Schedule).Scan(ctx); err != nil {
				return fmt.Errorf("the schedule of run %d: %w", run.ID, err)
			}
			if run.Claim++; ok {
				claimed = append(claimed, claimedRun{run, of.value()})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// step is a change of a run that is made only if the run is in a state under a claim.
type step struct {
	query string
	args  []any
	made  bool
}

const (
	maxOutput     = 4096 // bytes of the output of a run that are kept
	maxError      = 1000 // bytes of its error
	maxNameText   = 4096 // bytes of a name that are looked up
	forgetStep    = 5000 // runs that are deleted in one transaction
	stepsTogether = 100
	stepPatience  = 30 * time.Second
)

// step changes a run that is still in its state under its claim, and reports whether it was. Changes
// at about the same time are written together.
func (t *table) step(ctx context.Context, run *Run, set string, args ...any) (bool, error) {
	one := step{query: "UPDATE schedule_runs SET " + set + " WHERE id = ? AND claim = ? AND state = ?", args: append(args, run.ID, run.Claim, run.State)}
	err := t.steps.Add(ctx, &one)
	return one.made && err == nil, err
}

func (t *table) writeSteps(ctx context.Context, steps []*step) error {
	return t.db.Write(ctx, "begin and end runs of schedules", func(ctx context.Context, tx sqldb.Tx) (err error) {
		for _, one := range steps {
			if one.made, err = changedOne(tx.NewRaw(one.query, one.args...).Exec(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Start notes that a claimed run begins. It may begin only if Start returns true.
func (t *table) Start(ctx context.Context, run *Run, now time.Time, lease time.Duration) (bool, error) {
	ok, err := t.step(ctx, run,
		"state = ?, started = CASE WHEN started = 0 THEN ? ELSE started END, attempt = attempt + 1, lease = ?", Running, sqldb.Nanos(now), sqldb.Nanos(now.Add(lease)))
	if ok {
		if run.Started.IsZero() {
			run.Started = now
		}
		run.State, run.Lease = Running, now.Add(lease)
		run.Attempt++
	}
	return ok, err
}

// Extend extends the leases of runs that are still claimed or running under their claims.
func (t *table) Extend(ctx context.Context, runs []Run, until time.Time) error {
	if len(runs) == 0 {
		return nil
	}
	return t.db.Write(ctx, "extend the lease of runs of schedules", func(ctx context.Context, tx sqldb.Tx) error {
		for i := range runs {
			_, err := tx.NewRaw("UPDATE schedule_runs SET lease = ? WHERE id = ? AND claim = ? AND state IN (?)", sqldb.Nanos(until), runs[i].ID, runs[i].Claim,
				bun.List([]State{Claimed, Running})).Exec(ctx)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// outcome is how a run ended.
type outcome struct {
	State  State
	Code   int
	Output string // its beginning is kept
	Error  string
}

// Finish notes the outcome of a run that is claimed or running: a final state, or Idle for a run that
// is to be claimed again. It reports whether the run was still under its claim.
func (t *table) Finish(ctx context.Context, run *Run, o outcome, now time.Time) (bool, error) {
	ended := sqldb.Nanos(now)
	if o.State == Idle {
		ended = 0
	}
	return t.step(ctx, run, "state = ?, owner = '', lease = 0, claim = claim + 1, ended = ?, code = ?, output = ?, error = ?",
		o.State, ended, o.Code, sqldb.Text(o.Output, maxOutput), sqldb.Text(o.Error, maxError))
}

// Abandoned returns the runs that are claimed or running, but not by a living owner: their lease has
// ended; or it ends after furthest, since the clock was set back; or their owner has the prefix, but is
// not the given owner, so it is an earlier process of the same node.
func (t *table) Abandoned(ctx context.Context, owner, prefix string, now, furthest time.Time) ([]Run, error) {
	runs, err := t.find(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("state IN (?)", bun.List([]State{Claimed, Running})).Order("id")
	})
	return slices.DeleteFunc(runs, func(r Run) bool { // they are few
		anew := r.Owner != owner && strings.HasPrefix(r.Owner, prefix)
		return r.Lease.After(now) && !r.Lease.After(furthest) && !anew
	}), err
}

// own sets the owners of schedules that have runs which go on.
func (t *table) own(ctx context.Context, schedules []Schedule) error {
	byNum := make(map[uint64]*Schedule, len(schedules))
	for i := range schedules {
		byNum[schedules[i].Num] = &schedules[i]
	}
	runs, err := t.find(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("state IN (?)", bun.List([]State{Claimed, Running})).Order("id") // they are few
	})
	for i := range runs {
		if sc := byNum[runs[i].Schedule]; sc != nil {
			sc.Owner = runs[i].Owner
		}
	}
	return err
}

// find returns the runs that a query selects.
func (t *table) find(ctx context.Context, selection func(q *bun.SelectQuery) *bun.SelectQuery) (runs []Run, err error) {
	err = t.db.Read(ctx, "read runs of schedules", func(ctx context.Context, q sqldb.Reader) error {
		runs = nil
		return selection(q.NewSelect().Model(&runs)).Scan(ctx)
	})
	return runs, err
}

// Begun returns the runs of a kind that have begun and had not ended at an instant, with their
// schedules, whether or not a process is at work on them now.
func (t *table) Begun(ctx context.Context, kind string, at time.Time) ([]claimedRun, error) {
	runs, err := t.find(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("(ended = 0 OR ended > ?) AND started > 0 AND kind = ?", at, kind).Order("id")
	})
	if err != nil {
		return nil, err
	}
	schedules, err := t.where(ctx, "kind = ?", kind)
	of := make(map[uint64]Schedule)
	for _, sc := range schedules {
		of[sc.Num] = sc
	}
	var begun []claimedRun
	for _, run := range runs {
		if sc, ok := of[run.Schedule]; ok {
			begun = append(begun, claimedRun{run, sc})
		}
	}
	return begun, err
}

// RunFilter selects runs of schedules. The zero filter selects all.
type RunFilter struct {
	Name   string  // only of this schedule
	States []State // only in these; nil for all
	Before uint64  // only with a smaller id; 0 for all
}

// History returns up to limit runs, the latest first.
func (t *table) History(ctx context.Context, f RunFilter, limit int) ([]Run, error) {
	return t.find(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		q = q.Order("id DESC").Limit(int64(limit))
		if f.Name != "" {
			q = q.Where("schedule IN (SELECT num FROM schedules WHERE name = ?)", sqldb.Text(f.Name, maxNameText))
		}
		if f.States != nil {
			q = q.Where("state IN (?)", bun.List(f.States))
		}
		if f.Before != 0 {
			q = q.Where("id < ?", f.Before)
		}
		return q
	})
}

// Forget deletes runs that ended longer ago than an age, and returns how many. A clock that is ahead
// for a while makes none too old.
func (t *table) Forget(ctx context.Context, age time.Duration, now time.Time) (total int, err error) {
	before := t.db.OldBefore(now, age)
	for ctx.Err() == nil {
		var n int64
		err := t.db.Write(ctx, "remove old runs of schedules", func(ctx context.Context, tx sqldb.Tx) error {
			var ids []uint64
			n = 0
			err := tx.NewRaw("SELECT id FROM schedule_runs WHERE ended > 0 AND ended < ? ORDER BY ended LIMIT ?", sqldb.Nanos(before), forgetStep).Scan(ctx, &ids)
			if err != nil || len(ids) == 0 {
				return err
			}
			n = int64(len(ids))
			_, err = tx.NewRaw("DELETE FROM schedule_runs WHERE id IN (?)", bun.List(ids)).Exec(ctx)
			return err
		})
		if total += int(n); err != nil || n == 0 {
			return total, err
		}
	}
	return total, ctx.Err()
}
