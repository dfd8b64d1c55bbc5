package playbook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
)

// table holds the runs of playbooks in a database. Its methods may be called concurrently.
type table struct{ db *sqldb.DB }

// takeOver moves the times of waiting steps if the clock is behind that of the process before, so that they
// wait no longer by that.
func (t *table) takeOver(ctx context.Context, tx sqldb.Tx) error {
	behind, err := tx.SetBack(ctx)
	if err != nil || behind < time.Second {
		return err
	}
	by := int64(behind)
	_, err = tx.Exec(ctx, "UPDATE run_steps SET wake = wake - ?, started = started - ? WHERE state = ? AND wake > ? AND started > ?"+
		" AND run IN (SELECT id FROM runs WHERE state < 2)", by, by, StepWaiting, by, by)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE runs SET wake = wake - ? WHERE state = ? AND wake > ?", by, RunWaiting, by)
	return err
}

// Get returns a run and its steps. Errors: ErrUnknown.
func (t *table) Get(ctx context.Context, id uint64) (Run, []RunStep, error) {
	var runs []Run
	var steps []RunStep
	err := t.db.Read(ctx, "read runs of playbooks", func(ctx context.Context, q sqldb.Reader) (err error) {
		if runs, err = sqldb.All(ctx, q, (*Run).fields, "SELECT "+runColumns+" FROM runs WHERE id = ?", id); err != nil || len(runs) == 0 {
			return err
		}
		steps, err = sqldb.All(ctx, q, (*RunStep).fields, "SELECT "+stepColumns+" FROM run_steps WHERE run = ? ORDER BY started, step", id)
		return err
	})
	if err != nil {
		return Run{}, nil, err
	}
	if len(runs) == 0 {
		return Run{}, nil, errkind.Errorf(ErrUnknown, "there is no run %d; it may be too old to be kept", id)
	}
	return runs[0], steps, nil
}

// find returns the runs that a condition selects, which an order and a limit may follow.
func (t *table) find(ctx context.Context, where string, args ...any) ([]Run, error) {
	return sqldb.ReadAll(ctx, t.db, "read runs of playbooks", (*Run).fields, "SELECT "+runColumns+" FROM runs WHERE "+where, args...)
}

// List returns up to limit runs, the latest first.
func (t *table) List(ctx context.Context, filter RunFilter, limit int) ([]Run, error) {
	where, args := "id > 0", []any(nil)
	add := func(condition string, arg any) { where, args = where+" AND "+condition, append(args, arg) }
	if filter.Playbook != "" {
		add("playbook = ?", filter.Playbook)
	}
	if filter.Subject != "" {
		add("subject = ?", filter.Subject)
	}
	if len(filter.States) > 0 {
		add("state IN (?)", sqldb.Ints(filter.States))
	}
	if filter.Before > 0 {
		add("id < ?", filter.Before)
	}
	return t.find(ctx, where+" ORDER BY id DESC LIMIT ?", append(args, limit)...)
}

// Open returns the open runs of at most 1000 subjects, by number.
func (t *table) Open(ctx context.Context, subjects []string) ([]Run, error) {
	return t.find(ctx, "subject IN (?) AND state < 2 ORDER BY id", subjects)
}

// AllOpen returns up to limit open runs with a greater number, by number.
func (t *table) AllOpen(ctx context.Context, after uint64, limit int) ([]Run, error) {
	return t.find(ctx, "id > ? AND state < 2 ORDER BY id LIMIT ?", after, limit)
}

// Waiting returns the steps that wait, of at most 1000 runs.
func (t *table) Waiting(ctx context.Context, ids []uint64) (map[uint64][]RunStep, error) {
	waiting, err := sqldb.ReadAll(ctx, t.db, "read runs of playbooks", (*RunStep).fields, "SELECT "+stepColumns+" FROM run_steps WHERE run IN (?) AND state = ?", sqldb.Ints(ids), StepWaiting)
	steps := make(map[uint64][]RunStep)
	for _, s := range waiting {
		steps[s.Run] = append(steps[s.Run], s)
	}
	return steps, err
}

const (
	maxOutput = 4096 // bytes of the output of a step that are kept
	maxError  = 1000 // bytes of an error
	sweepStep = 1000 // runs that are deleted in one transaction
)

// Save writes runs and steps, all or none, over the rows that they have. A run that has ended stays as
// it ended, even if it was worked on meanwhile.
func (t *table) Save(ctx context.Context, changes []*runChange) error {
	if len(changes) == 0 {
		return nil
	}
	return t.db.Write(ctx, "write runs of playbooks", func(ctx context.Context, tx sqldb.Tx) error {
		putRun := sqldb.InsertInto("runs", runColumns) + unlessEnded(tx, "diverted", "ended", "wake", "error", "state")
		putStep := sqldb.InsertInto("run_steps", stepColumns) + tx.Upsert("run, step", "state", "attempts", "started", "ended", "wake", "holds", "output", "error")
		for i := range changes {
			run := changes[i].Run
			run.Error = sqldb.Text(run.Error, maxError)
			if _, err := tx.Exec(ctx, putRun, run.fields()...); err != nil {
				return err
			}
			for _, s := range changes[i].Steps {
				s.Run, s.Output, s.Error = run.ID, sqldb.Text(s.Output, maxOutput), sqldb.Text(s.Error, maxError)
				if _, err := tx.Exec(ctx, putStep, s.fields()...); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// unlessEnded returns the end of an INSERT that overwrites columns of a run if it is open. The state
// has to be the last of them: for the columns after it, MariaDB and MySQL would see its new value.
func unlessEnded(tx sqldb.Tx, columns ...string) string {
	sets := make([]string, len(columns))
	for i, c := range columns {
		_, value, _ := strings.Cut(tx.Upsert("id", c), c+" = ")
		sets[i] = fmt.Sprintf("%[1]s = CASE WHEN runs.state < 2 THEN %[2]s ELSE runs.%[1]s END", c, value)
	}
	return tx.Upsert("id") + strings.Join(sets, ", ")
}

// Cancel ends an open run. Its job is for the caller to remove. Errors: ErrUnknown, ErrEnded.
func (t *table) Cancel(ctx context.Context, id uint64, why string, now time.Time) error {
	run, _, err := t.Get(ctx, id)
	if err != nil {
		return err
	}
	if run.State.Final() {
		return errkind.Errorf(ErrEnded, "run %d has ended already: it is %s", id, run.State)
	}
	return t.db.Write(ctx, "cancel a run", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE runs SET state = ?, ended = ?, wake = 0, error = ? WHERE id = ? AND state < 2", RunCanceled, now, why, id)
		return err
	})
}

// Sweep deletes all but the latest runs that have ended, and those that ended longer ago than age, and
// returns how many. It also ends open runs whose jobs are gone. A clock that is ahead for a while makes
// no run too old.
func (t *table) Sweep(ctx context.Context, keep int, age time.Duration, now time.Time) (removed int, err error) {
	const abandoned = "UPDATE runs SET state = ?, ended = ?, wake = 0, error = ? WHERE state < 2 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = runs.id)"
	err = t.db.Write(ctx, "end runs without a job", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, abandoned, RunCanceled, now, "its job was removed, or became a dead letter")
		return err
	})
	for err == nil && ctx.Err() == nil {
		var n int64
		err = t.db.Write(ctx, "remove old runs", func(ctx context.Context, tx sqldb.Tx) error {
			ids, err := oldRuns(ctx, tx, keep, t.db.OldBefore(now, age))
			if n = int64(len(ids)); err != nil || n == 0 {
				return err
			}
			if _, err := tx.Exec(ctx, "DELETE FROM run_steps WHERE run IN (?)", ids); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "DELETE FROM runs WHERE id IN (?)", ids)
			return err
		})
		if removed += int(n); n == 0 {
			break
		}
	}
	return removed, err
}

// oldRuns returns some of the runs that are too many, or that ended before an instant.
func oldRuns(ctx context.Context, tx sqldb.Tx, keep int, before time.Time) ([]int64, error) {
	limit := int64(math.MinInt64) // when the last that is kept ended
	err := tx.QueryRowContext(ctx, "SELECT ended FROM runs WHERE state >= 2 ORDER BY ended DESC LIMIT 1 OFFSET ?", max(keep-1, 0)).Scan(&limit)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	return sqldb.Values[int64](ctx, tx, "SELECT id FROM runs WHERE state >= 2 AND ended < ? ORDER BY ended LIMIT ?", max(sqldb.Nanos(before), limit), sweepStep)
}
