package playbook

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

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
	_, err = tx.NewRaw("UPDATE run_steps SET wake = wake - ?, started = started - ? WHERE state = ? AND wake > ? AND started > ?"+
		" AND run IN (SELECT id FROM runs WHERE state < 2)", by, by, StepWaiting, by, by).Exec(ctx)
	if err != nil {
		return err
	}
	_, err = tx.NewRaw("UPDATE runs SET wake = wake - ? WHERE state = ? AND wake > ?", by, RunWaiting, by).Exec(ctx)
	return err
}

// Get returns a run and its steps. Errors: ErrUnknown.
func (t *table) Get(ctx context.Context, id uint64) (Run, []RunStep, error) {
	var runs []Run
	var steps []RunStep
	err := t.db.Read(ctx, "read runs of playbooks", func(ctx context.Context, q sqldb.Reader) error {
		runs, steps = nil, nil
		if err := q.NewSelect().Model(&runs).Where("id = ?", id).Scan(ctx); err != nil || len(runs) == 0 {
			return err
		}
		return q.NewSelect().Model(&steps).Where("run = ?", id).Order("started", "step").Scan(ctx)
	})
	if err != nil {
		return Run{}, nil, err
	}
	if len(runs) == 0 {
		return Run{}, nil, errkind.Errorf(ErrUnknown, "there is no run %d; it may be too old to be kept", id)
	}
	return runs[0], steps, nil
}

// find returns the runs that a query selects.
func (t *table) find(ctx context.Context, selection func(q *bun.SelectQuery) *bun.SelectQuery) (runs []Run, err error) {
	err = t.db.Read(ctx, "read runs of playbooks", func(ctx context.Context, q sqldb.Reader) error {
		runs = nil
		return selection(q.NewSelect().Model(&runs)).Scan(ctx)
	})
	return runs, err
}

// List returns up to limit runs, the latest first.
func (t *table) List(ctx context.Context, filter RunFilter, limit int) ([]Run, error) {
	return t.find(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		q = q.Order("id DESC").Limit(int64(limit))
		if filter.Playbook != "" {
			q = q.Where("playbook = ?", filter.Playbook)
		}
		if filter.Subject != "" {
			q = q.Where("subject = ?", filter.Subject)
		}
		if len(filter.States) > 0 {
			q = q.Where("state IN (?)", bun.List(filter.States))
		}
		if filter.Before > 0 {
			q = q.Where("id < ?", filter.Before)
		}
		return q
	})
}

// Open returns the open runs of at most 1000 subjects, by number.
func (t *table) Open(ctx context.Context, subjects []string) ([]Run, error) {
	return t.find(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("subject IN (?) AND state < 2", bun.List(subjects)).Order("id")
	})
}

// AllOpen returns up to limit open runs with a greater number, by number.
func (t *table) AllOpen(ctx context.Context, after uint64, limit int) ([]Run, error) {
	return t.find(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("id > ? AND state < 2", after).Order("id").Limit(int64(limit))
	})
}

// Waiting returns the steps that wait, of at most 1000 runs.
func (t *table) Waiting(ctx context.Context, ids []uint64) (map[uint64][]RunStep, error) {
	var waiting []RunStep
	err := t.db.Read(ctx, "read runs of playbooks", func(ctx context.Context, q sqldb.Reader) error {
		waiting = nil
		return q.NewSelect().Model(&waiting).Where("run IN (?) AND state = ?", bun.List(append([]uint64{0}, ids...)), StepWaiting).Scan(ctx)
	})
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
		putRun := "INSERT INTO runs (id, playbook, subject, event, state, diverted, started, ended, wake, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" +
			unlessEnded(tx, "diverted", "ended", "wake", "error", "state")
		putStep := "INSERT INTO run_steps (run, step, state, attempts, started, ended, wake, holds, output, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" +
			tx.Upsert("run, step", "state", "attempts", "started", "ended", "wake", "holds", "output", "error")
		for i := range changes {
			run := &changes[i].Run
			_, err := tx.NewRaw(putRun, run.ID, run.Playbook, run.Subject, run.Event, run.State, run.Diverted, run.Started, run.Ended, run.Wake,
				sqldb.Text(run.Error, maxError)).Exec(ctx)
			if err != nil {
				return err
			}
			for _, s := range changes[i].Steps {
				_, err := tx.NewRaw(putStep, run.ID, s.Step, s.State, s.Attempts, s.Started, s.Ended, s.Wake, s.Holds,
					sqldb.Text(s.Output, maxOutput), sqldb.Text(s.Error, maxError)).Exec(ctx)
				if err != nil {
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
		_, err := tx.NewRaw("UPDATE runs SET state = ?, ended = ?, wake = 0, error = ? WHERE id = ? AND state < 2",
			RunCanceled, now, why, id).Exec(ctx)
		return err
	})
}

// Sweep deletes all but the latest runs that have ended, and those that ended longer ago than age, and
// returns how many. It also ends open runs whose jobs are gone. A clock that is ahead for a while makes
// no run too old.
func (t *table) Sweep(ctx context.Context, keep int, age time.Duration, now time.Time) (removed int, err error) {
	const abandoned = "UPDATE runs SET state = ?, ended = ?, wake = 0, error = ? WHERE state < 2 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = runs.id)"
	err = t.db.Write(ctx, "end runs without a job", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.NewRaw(abandoned, RunCanceled, now, "its job was removed, or became a dead letter").Exec(ctx)
		return err
	})
	for err == nil && ctx.Err() == nil {
		var n int64
		err = t.db.Write(ctx, "remove old runs", func(ctx context.Context, tx sqldb.Tx) error {
			ids, err := oldRuns(ctx, tx, keep, t.db.OldBefore(now, age))
			if n = int64(len(ids)); err != nil || n == 0 {
				return err
			}
			if _, err := tx.NewRaw("DELETE FROM run_steps WHERE run IN (?)", bun.List(ids)).Exec(ctx); err != nil {
				return err
			}
			_, err = tx.NewRaw("DELETE FROM runs WHERE id IN (?)", bun.List(ids)).Exec(ctx)
			return err
		})
		if removed += int(n); n == 0 {
			break
		}
	}
	return removed, err
}

// oldRuns returns some of the runs that are too many, or that ended before an instant.
func oldRuns(ctx context.Context, tx sqldb.Tx, keep int, before time.Time) ([]uint64, error) {
	var limit []int64 // when the last that is kept ended
	if err := tx.NewRaw("SELECT ended FROM runs WHERE state >= 2 ORDER BY ended DESC LIMIT 1 OFFSET ?", max(keep-1, 0)).Scan(ctx, &limit); err != nil {
		return nil, err
	}
	oldest := sqldb.Nanos(before)
	if len(limit) > 0 {
		oldest = max(oldest, limit[0])
	}
	var ids []uint64
	err := tx.NewRaw("SELECT id FROM runs WHERE state >= 2 AND ended < ? ORDER BY ended LIMIT ?", oldest, sweepStep).Scan(ctx, &ids)
	return ids, err
}
