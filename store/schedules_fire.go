package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/sqldb"
)

// scheduleRunsKept is how many runs of a schedule that have ended are kept.
const scheduleRunsKept = 100

type scheduleRunRow struct {
	bun.BaseModel `bun:"table:schedule_runs"`

	ID        uint64        `bun:"id,pk"`
	Schedule  uint64        `bun:"schedule"`
	Name      string        `bun:"name"`
	Kind      string        `bun:"kind"`
	Number    uint64        `bun:"number"`
	Scheduled int64         `bun:"scheduled"`
	Ready     int64         `bun:"ready"`
	Serial    int           `bun:"serial"`
	Once      int           `bun:"once"`
	ByHand    int           `bun:"by_hand"`
	State     ScheduleState `bun:"state"`
	Owner     string        `bun:"owner"`
	Claim     int64         `bun:"claim"`
	Lease     int64         `bun:"lease"`
	Attempt   int           `bun:"attempt"`
	Started   int64         `bun:"started"`
	Ended     int64         `bun:"ended"`
	Code      int           `bun:"code"`
	Output    string        `bun:"output"`
	Error     string        `bun:"error"`
}

func (r *scheduleRunRow) value() ScheduleRun {
	return ScheduleRun{
		ID: r.ID, Schedule: r.Schedule, Name: r.Name, Kind: r.Kind, Number: r.Number, Scheduled: sqldb.Time(r.Scheduled), Ready: sqldb.Time(r.Ready),
		Once: r.Once != 0, Manual: r.ByHand != 0, State: r.State, Owner: r.Owner, Claim: r.Claim, Lease: sqldb.Time(r.Lease), Attempt: r.Attempt,
		Started: sqldb.Time(r.Started), Ended: sqldb.Time(r.Ended), Code: r.Code, Output: r.Output, Error: r.Error,
	}
}

// fire is Fire for one schedule.
func fire(ctx context.Context, tx sqldb.Tx, f *Firing, now time.Time) (out Fired, err error) {
	sc := &f.Schedule
	running, waiting, err := countRuns(ctx, tx, sc.Num)
	if err != nil {
		return out, err
	}
	if f.Manual && !f.Admits(running, waiting) {
		return Fired{Skipped: len(f.Runs)}, errNoRoom
	}
	moved, err := anyChanged(tx.NewRaw("UPDATE schedules SET last = ?, due = ?, claim = claim + 1 WHERE num = ? AND claim = ?",
		sqldb.Nanos(f.Last), dueNanos(f.Due), sc.Num, sc.Claim).Exec(ctx))
	if err != nil || !moved {
		return Fired{Stale: true}, err
	}
	var skipped []FiringRun
	for _, run := range f.Runs {
		if !f.Admits(running, waiting) {
			skipped = append(skipped, run)
			continue
		}
		made, err := insertRun(ctx, tx, f, run, sc.Runs+uint64(len(out.Runs))+1)
		if err != nil {
			return out, err
		}
		out.Runs = append(out.Runs, made)
		waiting++
	}
	if out.Skipped = len(skipped); out.Skipped > 0 {
		if err := noteSkipped(ctx, tx, f, skipped, now); err != nil {
			return out, err
		}
	}
	if len(out.Runs) > 0 {
		if _, err := tx.NewRaw("UPDATE schedules SET runs = ? WHERE num = ?", sc.Runs+uint64(len(out.Runs)), sc.Num).Exec(ctx); err != nil {
			return out, err
		}
	}
	return out, trimRuns(ctx, tx, sc.Num)
}

// countRuns counts the runs of a schedule that have not ended.
func countRuns(ctx context.Context, tx sqldb.Tx, schedule uint64) (running, waiting int, err error) {
	var rows []struct {
		State ScheduleState `bun:"state"`
		N     int           `bun:"n"`
	}
	err = tx.NewRaw("SELECT state, COUNT(*) AS n FROM schedule_runs WHERE schedule = ? AND ended = 0 GROUP BY state", schedule).Scan(ctx, &rows)
	for _, r := range rows {
		if r.State == ScheduleIdle {
			waiting += r.N
		} else {
			running += r.N
		}
	}
	return running, waiting, err
}

func insertRun(ctx context.Context, tx sqldb.Tx, f *Firing, run FiringRun, number uint64) (ScheduleRun, error) {
	id, err := takeScheduleNumber(ctx, tx)
	if err != nil {
		return ScheduleRun{}, err
	}
	row := scheduleRunRow{
		ID: id, Schedule: f.Schedule.Num, Name: f.Schedule.Name, Kind: f.Schedule.Kind, Number: number, Scheduled: sqldb.Nanos(run.Scheduled), Ready: sqldb.Nanos(run.Ready),
		Serial: sqldb.Bool(f.Serial), Once: sqldb.Bool(f.Schedule.Once), ByHand: sqldb.Bool(f.Manual), State: ScheduleIdle,
	}
	_, err = tx.NewInsert().Model(&row).Exec(ctx)
	return row.value(), err
}

// noteSkipped writes that there was no room for runs, into the latest row of the schedule if that says the same of those before.
func noteSkipped(ctx context.Context, tx sqldb.Tx, f *Firing, skipped []FiringRun, now time.Time) error {
	var latest []scheduleRunRow
	err := tx.NewSelect().Model(&latest).Where("schedule = ?", f.Schedule.Num).Order("id DESC").Limit(1).Scan(ctx)
	if err != nil {
		return err
	}
	at := sqldb.Nanos(skipped[len(skipped)-1].Scheduled)
	if len(latest) > 0 && latest[0].State == ScheduleSkipped {
		_, err := tx.NewRaw("UPDATE schedule_runs SET attempt = attempt + ?, scheduled = ?, ended = ? WHERE id = ?",
			len(skipped), at, sqldb.Nanos(now), latest[0].ID).Exec(ctx)
		return err
	}
	id, err := takeScheduleNumber(ctx, tx)
	if err != nil {
		return err
	}
	row := scheduleRunRow{
		ID: id, Schedule: f.Schedule.Num, Name: f.Schedule.Name, Kind: f.Schedule.Kind, Scheduled: at, Ready: at, State: ScheduleSkipped,
		Attempt: len(skipped), Ended: sqldb.Nanos(now),
	}
	_, err = tx.NewInsert().Model(&row).Exec(ctx)
	return err
}

// trimRuns removes the oldest runs of a schedule that have ended.
func trimRuns(ctx context.Context, tx sqldb.Tx, schedule uint64) error {
	var beyond []uint64
	err := tx.NewRaw("SELECT id FROM schedule_runs WHERE schedule = ? AND ended > 0 ORDER BY id DESC LIMIT 1 OFFSET ?", schedule, scheduleRunsKept).Scan(ctx, &beyond)
	if err != nil || len(beyond) == 0 {
		return err
	}
	_, err = tx.NewRaw("DELETE FROM schedule_runs WHERE schedule = ? AND id <= ? AND ended > 0", schedule, beyond[0]).Exec(ctx)
	return err
}

// claimable is the condition of a run r that may be claimed: its time has come, or the clock was set back since it was made; and those that
// it waits for have ended.
const claimable = "r.state = ? AND (r.ready <= ? OR r.scheduled > ?) AND (r.serial = 0 OR NOT EXISTS (SELECT 1 FROM schedule_runs o " +
	"WHERE o.schedule = r.schedule AND o.ended = 0 AND (o.state <> ? OR o.id < r.id)))"

func claimArgs(now time.Time) []any {
	return []any{ScheduleIdle, sqldb.Nanos(now), sqldb.Nanos(now), ScheduleIdle}
}

// ClaimedRun is a run with its schedule.
type ClaimedRun struct {
	ScheduleRun

	Of Schedule
}

// Claim takes up to n runs of some kinds that wait, the one that waits longest first, for the owner, until the lease ends. It must not be empty.
func (s *Schedules) Claim(ctx context.Context, kinds []string, n int, owner string, now time.Time, lease time.Duration) (claimed []ClaimedRun, err error) {
	if n < 1 || len(kinds) == 0 {
		return nil, nil
	}
	err = s.write(ctx, "claim runs of schedules", func(ctx context.Context, tx sqldb.Tx) error {
		claimed = nil
		var rows []scheduleRunRow
		err := tx.NewRaw("SELECT r.* FROM schedule_runs r WHERE "+claimable+" AND r.kind IN (?) ORDER BY r.ready, r.id LIMIT ?",
			append(claimArgs(now), bun.List(kinds), n)...).Scan(ctx, &rows)
		if err != nil {
			return err
		}
		for i := range rows {
			run := rows[i].value()
			run.State, run.Owner, run.Lease = ScheduleClaimed, owner, now.Add(lease)
			ok, err := anyChanged(tx.NewRaw("UPDATE schedule_runs SET state = ?, owner = ?, lease = ?, claim = claim + 1 WHERE id = ? AND claim = ? AND state = ?",
				run.State, owner, sqldb.Nanos(run.Lease), run.ID, run.Claim, ScheduleIdle).Exec(ctx))
			if err != nil {
				return err
			}
			var of scheduleRow
			if err := tx.NewSelect().Model(&of).Where("num = ?", run.Schedule).Scan(ctx); err != nil {
				return fmt.Errorf("the schedule of run %d: %w", run.ID, err)
			}
			if run.Claim++; ok {
				claimed = append(claimed, ClaimedRun{run, of.value()})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// runStep is a change of a run that is to be made if the run is in a state under a claim, and then whether it was.
type runStep struct {
	query string
	args  []any
	made  bool
}

const (
	stepsTogether = 100
	stepPatience  = 30 * time.Second
)

// step changes a run that is in its state under its claim, and says whether it was. What changes at about the same time is written together.
func (s *Schedules) step(ctx context.Context, run *ScheduleRun, set string, args ...any) (bool, error) {
	one := runStep{query: "UPDATE schedule_runs SET " + set + " WHERE id = ? AND claim = ? AND state = ?", args: append(args, run.ID, run.Claim, run.State)}
	err := s.steps.Add(ctx, &one)
	return one.made && err == nil, err
}

func (s *Schedules) writeSteps(ctx context.Context, steps []*runStep) error {
	return s.write(ctx, "begin and end runs of schedules", func(ctx context.Context, tx sqldb.Tx) (err error) {
		for _, one := range steps {
			if one.made, err = anyChanged(tx.NewRaw(one.query, one.args...).Exec(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Start says that a claimed run begins. Only if it says true may it.
func (s *Schedules) Start(ctx context.Context, run *ScheduleRun, now time.Time, lease time.Duration) (bool, error) {
	ok, err := s.step(ctx, run,
		"state = ?, started = CASE WHEN started = 0 THEN ? ELSE started END, attempt = attempt + 1, lease = ?", ScheduleRunning, sqldb.Nanos(now), sqldb.Nanos(now.Add(lease)))
	if ok {
		if run.Started.IsZero() {
			run.Started = now
		}
		run.State, run.Lease = ScheduleRunning, now.Add(lease)
		run.Attempt++
	}
	return ok, err
}

// Extend moves the end of the leases of runs that are still claimed or running under their claims.
func (s *Schedules) Extend(ctx context.Context, runs []ScheduleRun, until time.Time) error {
	return s.write(ctx, "extend the lease of runs of schedules", func(ctx context.Context, tx sqldb.Tx) error {
		for i := range runs {
			_, err := tx.NewRaw("UPDATE schedule_runs SET lease = ? WHERE id = ? AND claim = ? AND state IN (?)", sqldb.Nanos(until), runs[i].ID, runs[i].Claim,
				bun.List([]ScheduleState{ScheduleClaimed, ScheduleRunning})).Exec(ctx)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// ScheduleOutcome is what came of a run.
type ScheduleOutcome struct {
	State  ScheduleState
	Code   int
	Output string // its beginning is kept
	Error  string
}

// Finish says what came of a run that is claimed or running: a final state, or idle for one that is to be claimed again.
func (s *Schedules) Finish(ctx context.Context, run *ScheduleRun, o ScheduleOutcome, now time.Time) (bool, error) {
	ended := sqldb.Nanos(now)
	if o.State == ScheduleIdle {
		ended = 0
	}
	return s.step(ctx, run, "state = ?, owner = '', lease = 0, claim = claim + 1, ended = ?, code = ?, output = ?, error = ?",
		o.State, ended, o.Code, sqldb.Text(o.Output, maxResponse), sqldb.Text(o.Error, maxJobError))
}

// Abandoned returns runs that are claimed or running and whose lease has ended, or, if the clock was set back, lies further ahead than any
// that was given; and those whose owner has the prefix, but is not the owner itself: an earlier life of the same.
func (s *Schedules) Abandoned(ctx context.Context, owner, prefix string, now, furthest time.Time) ([]ScheduleRun, error) {
	var rows []scheduleRunRow
	err := s.db.Read(ctx, "look for runs that were left", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		return q.NewSelect().Model(&rows).Where("state IN (?)", bun.List([]ScheduleState{ScheduleClaimed, ScheduleRunning})).Order("id").Scan(ctx)
	})
	rows = slices.DeleteFunc(rows, func(r scheduleRunRow) bool { // they are few
		anew := r.Owner != owner && strings.HasPrefix(r.Owner, prefix)
		return r.Lease > sqldb.Nanos(now) && r.Lease <= sqldb.Nanos(furthest) && !anew
	})
	return runValues(rows), err
}

func runValues(rows []scheduleRunRow) []ScheduleRun {
	runs := make([]ScheduleRun, len(rows))
	for i := range rows {
		runs[i] = rows[i].value()
	}
	return runs
}

// Begun returns the runs of a kind that have begun and had not ended at an instant, with their schedules, whether or not anybody is at work on
// them now.
func (s *Schedules) Begun(ctx context.Context, kind string, at time.Time) ([]ClaimedRun, error) {
	var rows []scheduleRunRow
	var schedules []scheduleRow
	err := s.db.Read(ctx, "read what goes on", func(ctx context.Context, q *bun.DB) error {
		rows, schedules = nil, nil
		if err := q.NewSelect().Model(&rows).Where("(ended = 0 OR ended > ?) AND started > 0 AND kind = ?", sqldb.Nanos(at), kind).Order("id").Scan(ctx); err != nil {
			return err
		}
		return q.NewSelect().Model(&schedules).Where("kind = ?", kind).Scan(ctx)
	})
	of := make(map[uint64]Schedule)
	for i := range schedules {
		of[schedules[i].Num] = schedules[i].value()
	}
	var begun []ClaimedRun
	for _, run := range runValues(rows) {
		if sc, ok := of[run.Schedule]; ok {
			begun = append(begun, ClaimedRun{run, sc})
		}
	}
	return begun, err
}

// ScheduleRunFilter chooses runs of schedules. The zero one chooses all.
type ScheduleRunFilter struct {
	Name   string          // only of this schedule
	States []ScheduleState // only in these; nil for all
	Before uint64          // only with a smaller id; 0 for all
}

// History returns up to limit runs, the latest first.
func (s *Schedules) History(ctx context.Context, f ScheduleRunFilter, limit int) ([]ScheduleRun, error) {
	var rows []scheduleRunRow
	err := s.db.Read(ctx, "read runs of schedules", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		find := q.NewSelect().Model(&rows).Order("id DESC").Limit(int64(limit))
		if f.Name != "" {
			find = find.Where("schedule IN (SELECT num FROM schedules WHERE name = ?)", sqldb.Text(f.Name, maxMessage))
		}
		if f.States != nil {
			find = find.Where("state IN (?)", bun.List(f.States))
		}
		if f.Before != 0 {
			find = find.Where("id < ?", f.Before)
		}
		return find.Scan(ctx)
	})
	return runValues(rows), err
}

// Forget removes runs that ended longer ago than an age, and says how many. A clock that is ahead for a while makes none too old.
func (s *Schedules) Forget(ctx context.Context, age time.Duration, now time.Time) (total int, err error) {
	before := s.db.OldBefore(now, age)
	for ctx.Err() == nil {
		var n int64
		err := s.write(ctx, "remove old runs of schedules", func(ctx context.Context, tx sqldb.Tx) error {
			var ids []uint64
			n = 0
			err := tx.NewRaw("SELECT id FROM schedule_runs WHERE ended > 0 AND ended < ? ORDER BY ended LIMIT ?", sqldb.Nanos(before), pruneStep).Scan(ctx, &ids)
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
