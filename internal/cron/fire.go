package cron

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// runsKept is how many runs of a schedule that have ended are kept.
const runsKept = 100

// firing is the runs of a schedule that are due.
type firing struct {
	Schedule  Schedule  // as it was read; if it was changed since, no run is made
	Last, Due time.Time // what those of the schedule are to be
	Manual    bool
	Serial    bool // its runs wait for each other
	Runs      []firingRun
	// Admits reports whether there is room for one more run, beside those that go on and those that
	// wait. It only computes.
	Admits func(running, waiting int) bool
}

// firingRun is a run to be.
type firingRun struct{ Scheduled, Ready time.Time }

// fired is the result of a firing.
type fired struct {
	Runs    []Run // that were made
	Skipped int   // that were not, for want of room
	Stale   bool  // the schedule was changed meanwhile: nothing was done
}

// errNoRoom is the error for a manual run without room.
var errNoRoom = errors.New("cron: no room for one more run")

// Fire makes the runs of schedules that are due and moves the schedules on, all in one transaction.
// Runs without room are noted as skipped, in one row for many in a row; a manual run without room
// changes nothing.
func (t *table) Fire(ctx context.Context, firings []firing, now time.Time) ([]fired, error) {
	if len(firings) == 0 {
		return nil, nil
	}
	var out []fired
	err := t.db.Write(ctx, "make runs of schedules", func(ctx context.Context, tx sqldb.Tx) error {
		out = make([]fired, len(firings))
		for i := range firings {
			var err error
			if out[i], err = fireOne(ctx, tx, &firings[i], now); err != nil && !errors.Is(err, errNoRoom) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fireOne is Fire for one schedule.
func fireOne(ctx context.Context, tx sqldb.Tx, f *firing, now time.Time) (out fired, err error) {
	sc := &f.Schedule
	running, waiting, err := countRuns(ctx, tx, sc.Num)
	if err != nil {
		return out, err
	}
	if f.Manual && !f.Admits(running, waiting) {
		return fired{Skipped: len(f.Runs)}, errNoRoom
	}
	moved, err := changedOne(tx.Exec(ctx, "UPDATE schedules SET last = ?, due = ?, claim = claim + 1 WHERE num = ? AND claim = ?",
		f.Last, (*dueTime)(&f.Due), sc.Num, sc.Claim))
	if err != nil || !moved {
		return fired{Stale: true}, err
	}
	var skipped []firingRun
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
		if _, err := tx.Exec(ctx, "UPDATE schedules SET runs = ? WHERE num = ?", sc.Runs+uint64(len(out.Runs)), sc.Num); err != nil {
			return out, err
		}
	}
	return out, trimRuns(ctx, tx, sc.Num)
}

// countRuns counts the runs of a schedule that have not ended.
func countRuns(ctx context.Context, tx sqldb.Tx, schedule uint64) (running, waiting int, err error) {
	counts, err := sqldb.Pairs[State, int](ctx, tx, "SELECT state, COUNT(*) FROM schedule_runs WHERE schedule = ? AND ended = 0 GROUP BY state", schedule)
	for state, n := range counts {
		if state == Idle {
			waiting += n
		} else {
			running += n
		}
	}
	return running, waiting, err
}

func insertRun(ctx context.Context, tx sqldb.Tx, f *firing, run firingRun, number uint64) (Run, error) {
	id, err := takeNumber(ctx, tx)
	if err != nil {
		return Run{}, err
	}
	made := Run{
		ID: id, Schedule: f.Schedule.Num, Name: f.Schedule.Name, Kind: f.Schedule.Kind, Number: number,
		Scheduled: sqldb.Time(sqldb.Nanos(run.Scheduled)), Ready: sqldb.Time(sqldb.Nanos(run.Ready)), // as they are kept
		Serial: f.Serial, Once: f.Schedule.Once, Manual: f.Manual, State: Idle,
	}
	_, err = tx.Exec(ctx, sqldb.InsertInto("schedule_runs", runColumns), made.fields()...)
	return made, err
}

// noteSkipped notes runs without room, in the latest row of the schedule if that is such a note.
func noteSkipped(ctx context.Context, tx sqldb.Tx, f *firing, skipped []firingRun, now time.Time) error {
	latest, err := sqldb.All(ctx, tx, (*Run).fields, "SELECT "+runColumns+" FROM schedule_runs WHERE schedule = ? ORDER BY id DESC LIMIT 1", f.Schedule.Num)
	if err != nil {
		return err
	}
	at := skipped[len(skipped)-1].Scheduled
	if len(latest) > 0 && latest[0].State == Skipped {
		_, err := tx.Exec(ctx, "UPDATE schedule_runs SET attempt = attempt + ?, scheduled = ?, ended = ? WHERE id = ?",
			len(skipped), at, now, latest[0].ID)
		return err
	}
	id, err := takeNumber(ctx, tx)
	if err != nil {
		return err
	}
	note := Run{
		ID: id, Schedule: f.Schedule.Num, Name: f.Schedule.Name, Kind: f.Schedule.Kind, Scheduled: at, Ready: at, State: Skipped,
		Attempt: len(skipped), Ended: now,
	}
	_, err = tx.Exec(ctx, sqldb.InsertInto("schedule_runs", runColumns), note.fields()...)
	return err
}

// trimRuns deletes the oldest runs of a schedule that have ended.
func trimRuns(ctx context.Context, tx sqldb.Tx, schedule uint64) error {
	var beyond uint64
	err := tx.QueryRowContext(ctx, "SELECT id FROM schedule_runs WHERE schedule = ? AND ended > 0 ORDER BY id DESC LIMIT 1 OFFSET ?", schedule, runsKept).Scan(&beyond)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, "DELETE FROM schedule_runs WHERE schedule = ? AND id <= ? AND ended > 0", schedule, beyond)
	}
	return err
}
