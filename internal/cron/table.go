package cron

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/commit"
	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
)

// table holds the schedules in a database and their runs. Its methods may be called concurrently. Each
// of them changes a row only if nobody has changed it since it was read, and reports whether it did:
// so it does no harm to try again after an error. Time is an argument; [sqldb.DB.Clock] has it.
type table struct {
	db    *sqldb.DB
	steps commit.Group[step]
}

func newTable(db *sqldb.DB) *table {
	t := &table{db: db}
	t.steps.Most, t.steps.Patience, t.steps.Write = stepsTogether, stepPatience, t.writeSteps
	return t
}

// changedOne reports whether a statement changed a row. Its arguments are what [sqldb.Tx.Exec] returns.
func changedOne(n int64, err error) (bool, error) { return n > 0, err }

// takeNumber returns a new number of a schedule or a run.
func takeNumber(ctx context.Context, tx sqldb.Tx) (n uint64, err error) {
	if _, err := tx.Exec(ctx, "UPDATE schedule_numbers SET last = last + 1 WHERE id = 1"); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, "SELECT last FROM schedule_numbers WHERE id = 1").Scan(&n)
	return n, err
}

// where returns the schedules that a condition selects, by name.
func (t *table) where(ctx context.Context, condition string, args ...any) ([]Schedule, error) {
	return sqldb.ReadAll(ctx, t.db, "read schedules", (*Schedule).fields, "SELECT "+scheduleColumns+" FROM schedules WHERE "+condition+" ORDER BY name", args...)
}

// List returns all schedules, by name.
func (t *table) List(ctx context.Context) ([]Schedule, error) { return t.where(ctx, "1 = 1") }

// Count returns how many schedules there are.
func (t *table) Count(ctx context.Context) (n int, err error) {
	err = t.db.ReadRow(ctx, "count schedules", []any{&n}, "SELECT COUNT(*) FROM schedules")
	return n, err
}

// Named returns a schedule. Errors: ErrUnknown.
func (t *table) Named(ctx context.Context, name string) (Schedule, error) {
	named, err := t.where(ctx, "name = ?", sqldb.Text(name, maxNameText))
	switch {
	case err != nil:
		return Schedule{}, err
	case len(named) == 0:
		return Schedule{}, unknown(name)
	}
	return named[0], nil
}

func unknown(name string) error {
	return errkind.Errorf(ErrUnknown, "there is no schedule %.80q", name)
}

// Put makes a schedule if its Num is 0, else changes the one with that number, but for its name. It
// returns false if there is one with the name already, or if the one with the number was changed.
func (t *table) Put(ctx context.Context, sc Schedule) (ok bool, err error) {
	err = t.db.Write(ctx, "change a schedule", func(ctx context.Context, tx sqldb.Tx) (err error) {
		row := sc
		if row.Num != 0 {
			row.Claim++
			ok, err = changedOne(tx.Exec(ctx, "UPDATE schedules SET "+strings.ReplaceAll(putColumns, ",", " = ?,")+" = ? WHERE num = ? AND claim = ?",
				append(row.fields()[3:], row.Num, sc.Claim)...))
			return err
		}
		there := 0
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM schedules WHERE name = ?", row.Name).Scan(&there); err != nil || there > 0 {
			return err
		}
		if row.Num, err = takeNumber(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqldb.InsertInto("schedules", scheduleColumns), row.fields()...)
		ok = err == nil
		return err
	})
	return ok && err == nil, err
}

// Delete deletes a schedule with all of its runs; those that go on leave no trace. Errors:
// ErrUnknown.
func (t *table) Delete(ctx context.Context, name string) error {
	return t.db.Write(ctx, "delete a schedule", func(ctx context.Context, tx sqldb.Tx) error {
		var num uint64
		err := tx.QueryRowContext(ctx, "SELECT num FROM schedules WHERE name = ?", sqldb.Text(name, maxNameText)).Scan(&num)
		if errors.Is(err, sql.ErrNoRows) {
			return unknown(name)
		}
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM schedule_runs WHERE schedule = ?", num)
		}
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM schedules WHERE num = ?", num)
		}
		return err
	})
}

// agenda is what there is to do.
type agenda struct {
	due   []Schedule // schedules with an instant that has come, the longest ago first
	ready []bool     // for each of the lists of kinds, whether there are runs that can be claimed
	next  time.Time  // when there is something else; zero if there is nothing
}

// Agenda returns what there is to do, with at most limit schedules.
func (t *table) Agenda(ctx context.Context, now time.Time, limit int, kinds ...[]string) (agenda, error) {
	var a agenda
	var next, nextRun []int64
	err := t.db.Read(ctx, "look for what is due", func(ctx context.Context, q sqldb.Reader) (err error) {
		a = agenda{}
		if a.due, err = sqldb.All(ctx, q, (*Schedule).fields, "SELECT "+scheduleColumns+" FROM schedules WHERE due <= ? ORDER BY due LIMIT ?", now, limit); err != nil {
			return err
		}
		next, err = sqldb.Values[int64](ctx, q, "SELECT due FROM schedules WHERE due > ? AND due < ? ORDER BY due LIMIT 1", now, int64(never))
		if err != nil {
			return err
		}
		for _, list := range kinds {
			one, err := sqldb.Values[int64](ctx, q, "SELECT r.id FROM schedule_runs r WHERE "+claimable+" AND r.kind IN (?) LIMIT 1", append(claimArgs(now), list)...)
			if err != nil {
				return err
			}
			a.ready = append(a.ready, len(one) > 0)
		}
		nextRun, err = sqldb.Values[int64](ctx, q, "SELECT ready FROM schedule_runs WHERE state = ? AND ready > ? AND scheduled <= ? ORDER BY ready LIMIT 1",
			Idle, now, now)
		return err
	})
	if err != nil {
		return agenda{}, err
	}
	for _, at := range append(next, nextRun...) {
		if at := time.Unix(0, at); a.next.IsZero() || at.Before(a.next) {
			a.next = at
		}
	}
	return a, nil
}

// Ahead returns the schedules whose instants were handled beyond after: the clock was set back.
func (t *table) Ahead(ctx context.Context, after time.Time) ([]Schedule, error) {
	return t.where(ctx, "last > ?", after)
}
