package cron

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// claimable is the condition of a run r that may be claimed: its time has come, or the clock was set
// back since it was made; and the runs that it waits for have ended.
const claimable = "r.state = ? AND (r.ready <= ? OR r.scheduled > ?) AND (r.serial = 0 OR NOT EXISTS (SELECT 1 FROM schedule_runs o " +
	"WHERE o.schedule = r.schedule AND o.ended = 0 AND (o.state <> ? OR o.id < r.id)))"

func claimArgs(now time.Time) []any {
	return []any{Idle, now, now, Idle}
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
		runs, err := sqldb.All(ctx, tx, (*Run).fields, "SELECT "+runColumns+" FROM schedule_runs r WHERE "+claimable+" AND r.kind IN (?) ORDER BY r.ready, r.id LIMIT ?",
			append(claimArgs(now), kinds, n)...)
		if err != nil {
			return err
		}
		for _, run := range runs {
			run.State, run.Owner, run.Lease = Claimed, owner, now.Add(lease)
			ok, err := changedOne(tx.Exec(ctx, "UPDATE schedule_runs SET state = ?, owner = ?, lease = ?, claim = claim + 1 WHERE id = ? AND claim = ? AND state = ?",
				run.State, owner, run.Lease, run.ID, run.Claim, Idle))
			if err != nil {
				return err
			}
			one := claimedRun{Run: run}
			err = tx.QueryRowContext(ctx, "SELECT "+scheduleColumns+" FROM schedules WHERE num = ?", run.Schedule).Scan(one.Of.fields()...)
			if err != nil {
				return fmt.Errorf("the schedule of run %d: %w", run.ID, err)
			}
			if one.Claim++; ok {
				claimed = append(claimed, one)
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
			if one.made, err = changedOne(tx.Exec(ctx, one.query, one.args...)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Start notes that a claimed run begins. It may begin only if Start returns true.
func (t *table) Start(ctx context.Context, run *Run, now time.Time, lease time.Duration) (bool, error) {
	ok, err := t.step(ctx, run,
		"state = ?, started = CASE WHEN started = 0 THEN ? ELSE started END, attempt = attempt + 1, lease = ?", Running, now, now.Add(lease))
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
			_, err := tx.Exec(ctx, "UPDATE schedule_runs SET lease = ? WHERE id = ? AND claim = ? AND "+goesOn, until, runs[i].ID, runs[i].Claim)
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
	runs, err := t.find(ctx, goesOn+" ORDER BY id")
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
	runs, err := t.find(ctx, goesOn+" ORDER BY id") // they are few
	for i := range runs {
		if sc := byNum[runs[i].Schedule]; sc != nil {
			sc.Owner = runs[i].Owner
		}
	}
	return err
}

// goesOn is the condition that a run is claimed or running.
const goesOn = "state IN ('claimed', 'running')"

// find returns the runs that a condition selects, which an order and a limit may follow.
func (t *table) find(ctx context.Context, where string, args ...any) ([]Run, error) {
	return sqldb.ReadAll(ctx, t.db, "read runs of schedules", (*Run).fields, "SELECT "+runColumns+" FROM schedule_runs WHERE "+where, args...)
}

// Begun returns the runs of a kind that have begun and had not ended at an instant, with their
// schedules, whether or not a process is at work on them now.
func (t *table) Begun(ctx context.Context, kind string, at time.Time) ([]claimedRun, error) {
	runs, err := t.find(ctx, "(ended = 0 OR ended > ?) AND started > 0 AND kind = ? ORDER BY id", at, kind)
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
	where, args := "id > 0", []any(nil)
	add := func(condition string, arg any) { where, args = where+" AND "+condition, append(args, arg) }
	if f.Name != "" {
		add("schedule IN (SELECT num FROM schedules WHERE name = ?)", sqldb.Text(f.Name, maxNameText))
	}
	if f.States != nil {
		states := make([]string, len(f.States))
		for i, s := range f.States {
			states[i] = string(s)
		}
		add("state IN (?)", states)
	}
	if f.Before != 0 {
		add("id < ?", f.Before)
	}
	return t.find(ctx, where+" ORDER BY id DESC LIMIT ?", append(args, limit)...)
}

// Forget deletes runs that ended longer ago than an age, and returns how many. A clock that is ahead
// for a while makes none too old.
func (t *table) Forget(ctx context.Context, age time.Duration, now time.Time) (total int, err error) {
	before := t.db.OldBefore(now, age)
	for ctx.Err() == nil {
		var n int64
		err := t.db.Write(ctx, "remove old runs of schedules", func(ctx context.Context, tx sqldb.Tx) error {
			ids, err := sqldb.Values[int64](ctx, tx, "SELECT id FROM schedule_runs WHERE ended > 0 AND ended < ? ORDER BY ended LIMIT ?", before, forgetStep)
			if n = int64(len(ids)); err != nil || n == 0 {
				return err
			}
			_, err = tx.Exec(ctx, "DELETE FROM schedule_runs WHERE id IN (?)", ids)
			return err
		})
		if total += int(n); err != nil || n == 0 {
			return total, err
		}
	}
	return total, ctx.Err()
}
