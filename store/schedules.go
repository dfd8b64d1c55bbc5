package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/groupcommit"
	"github.com/holter-iot/holter/sqldb"
)

// Schedule is a schedule that is kept: instants, and what is to be done at them. What its texts mean is for others to know.
type Schedule struct {
	Num      uint64 // given by the store, and never again
	Name     string
	Kind     string
	Spec     string
	Zone     string
	Settings json.RawMessage
	Overlap  int
	Misfire  int
	Jitter   time.Duration
	Once     bool // its runs are not begun again after a crash
	Paused   bool
	Began    time.Time
	Last     time.Time // all instants up to it were handled
	Due      time.Time // the next instant; zero for none
	Runs     uint64    // number of its latest run
	Claim    int64     // number of its latest change
}

// ScheduleState says how far a run of a schedule is.
type ScheduleState string

// The states of a run of a schedule. The last four are final.
const (
	ScheduleIdle    ScheduleState = "idle"    // it waits to be claimed
	ScheduleClaimed ScheduleState = "claimed" // somebody is about to begin
	ScheduleRunning ScheduleState = "running"
	ScheduleDone    ScheduleState = "done"
	ScheduleFailed  ScheduleState = "failed"
	ScheduleLost    ScheduleState = "lost"    // who ran it is gone, and it must not be begun twice
	ScheduleSkipped ScheduleState = "skipped" // there was no room for it
)

// ScheduleStates returns all states.
func ScheduleStates() []ScheduleState {
	return []ScheduleState{ScheduleIdle, ScheduleClaimed, ScheduleRunning, ScheduleDone, ScheduleFailed, ScheduleLost, ScheduleSkipped}
}

// ScheduleRun is a run of a schedule. Only who knows its Claim can take it a step further, and each claim gives it another one.
type ScheduleRun struct {
	ID        uint64 // given by the store, and never again
	Schedule  uint64
	Name      string // of the schedule
	Kind      string
	Number    uint64 // among the runs of the schedule, from 1 on; 0 for one that was skipped
	Scheduled time.Time
	Ready     time.Time // not to be begun before
	Once      bool
	Manual    bool
	State     ScheduleState
	Owner     string // of one that is claimed or running
	Claim     int64
	Lease     time.Time // until when the owner has it
	Attempt   int       // how often it was begun; of one that was skipped, how many instants it stands for
	Started   time.Time // first
	Ended     time.Time
	Code      int
	Output    string
	Error     string
}

// Schedules are the schedules in a [Store] and their runs. Their methods may be called concurrently; writers take turns as in [Jobs], and
// one that was overtaken by another process changes nothing ([sqldb.ErrFenced]). Each changes what it was told of only if nobody has changed that
// since, and says whether it did: so it does no harm to try again after an error. Time is an argument; [Store.Clock] has it.
type Schedules struct {
	db    *sqldb.DB
	steps groupcommit.Group[runStep]
}

func newSchedules(db *sqldb.DB) *Schedules {
	s := &Schedules{db: db}
	s.steps.Most, s.steps.Patience, s.steps.Write = stepsTogether, stepPatience, s.writeSteps
	return s
}

// Schedules returns the schedules in the store.
func (s *Store) Schedules() *Schedules { return s.schedules }

// never is the due time of a schedule that has no instant left, and of one whose next instant is beyond what is kept: in 2262.
const never = math.MaxInt64

func dueNanos(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return sqldb.Nanos(t)
}

func dueTime(ns int64) time.Time {
	if ns == never {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

type scheduleRow struct {
	bun.BaseModel `bun:"table:schedules"`

	Num      uint64 `bun:"num,pk"`
	Name     string `bun:"name"`
	Kind     string `bun:"kind"`
	Spec     string `bun:"spec"`
	Zone     string `bun:"zone"`
	Settings string `bun:"settings"`
	Overlap  int    `bun:"overlap"`
	Misfire  int    `bun:"misfire"`
	Jitter   int64  `bun:"jitter"`
	Once     int    `bun:"once"`
	Paused   int    `bun:"paused"`
	Began    int64  `bun:"began"`
	Last     int64  `bun:"last"`
	Due      int64  `bun:"due"`
	Runs     uint64 `bun:"runs"`
	Claim    int64  `bun:"claim"`
}

func (r *scheduleRow) value() Schedule {
	return Schedule{
		Num: r.Num, Name: r.Name, Kind: r.Kind, Spec: r.Spec, Zone: r.Zone, Settings: json.RawMessage(r.Settings), Overlap: r.Overlap, Misfire: r.Misfire,
		Jitter: time.Duration(r.Jitter), Once: r.Once != 0, Paused: r.Paused != 0, Began: sqldb.Time(r.Began), Last: sqldb.Time(r.Last), Due: dueTime(r.Due),
		Runs: r.Runs, Claim: r.Claim,
	}
}

func scheduleRowOf(s *Schedule) scheduleRow {
	return scheduleRow{
		Num: s.Num, Name: s.Name, Kind: s.Kind, Spec: s.Spec, Zone: s.Zone, Settings: string(s.Settings), Overlap: s.Overlap, Misfire: s.Misfire,
		Jitter: int64(s.Jitter), Once: sqldb.Bool(s.Once), Paused: sqldb.Bool(s.Paused), Began: sqldb.Nanos(s.Began), Last: sqldb.Nanos(s.Last), Due: dueNanos(s.Due),
		Runs: s.Runs, Claim: s.Claim,
	}
}

// write runs a transaction of a writer.
func (s *Schedules) write(ctx context.Context, what string, do func(ctx context.Context, tx sqldb.Tx) error) error {
	return s.db.Write(ctx, what, do)
}

// anyChanged reports whether a statement changed a row.
func anyChanged(res sql.Result, err error) (bool, error) {
	n, err := sqldb.Changed(res, err)
	return n > 0, err
}

// takeScheduleNumber returns a new number of a schedule or a run.
func takeScheduleNumber(ctx context.Context, tx sqldb.Tx) (n uint64, err error) {
	if _, err := tx.NewRaw("UPDATE schedule_numbers SET last = last + 1 WHERE id = 1").Exec(ctx); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, "SELECT last FROM schedule_numbers WHERE id = 1").Scan(&n)
	return n, err
}

// List returns all schedules, by name.
func (s *Schedules) List(ctx context.Context) ([]Schedule, error) {
	var rows []scheduleRow
	err := s.db.Read(ctx, "read schedules", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		return q.NewSelect().Model(&rows).Order("name").Scan(ctx)
	})
	list := make([]Schedule, len(rows))
	for i := range rows {
		list[i] = rows[i].value()
	}
	return list, err
}

// Count returns how many schedules there are.
func (s *Schedules) Count(ctx context.Context) (n int, err error) {
	err = s.db.Read(ctx, "count schedules", func(ctx context.Context, q *bun.DB) error {
		return q.QueryRowContext(ctx, "SELECT COUNT(*) FROM schedules").Scan(&n)
	})
	return n, err
}

// Named returns a schedule. Errors: ErrUnknown.
func (s *Schedules) Named(ctx context.Context, name string) (Schedule, error) {
	var rows []scheduleRow
	err := s.db.Read(ctx, "read a schedule", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		return q.NewSelect().Model(&rows).Where("name = ?", sqldb.Text(name, maxMessage)).Scan(ctx)
	})
	switch {
	case err != nil:
		return Schedule{}, err
	case len(rows) == 0:
		return Schedule{}, unknownSchedule(name)
	}
	return rows[0].value(), nil
}

func unknownSchedule(name string) error {
	return errkind.Errorf(ErrUnknown, "there is no schedule %.80q", name)
}

// Put makes a schedule if its Num is 0, else changes the one with that number, but for its name. It says false if there is one with the name
// already, or if the one with the number was changed since. Errors: ErrBadName.
func (s *Schedules) Put(ctx context.Context, sc Schedule) (ok bool, err error) {
	if err := ValidateName(sc.Name); err != nil {
		return false, err
	}
	row := scheduleRowOf(&sc)
	err = s.write(ctx, "change a schedule", func(ctx context.Context, tx sqldb.Tx) (err error) {
		if row.Num != 0 {
			row.Claim = sc.Claim + 1
			ok, err = anyChanged(tx.NewUpdate().Model(&row).ExcludeColumn("name", "runs").WherePK().Where("claim = ?", sc.Claim).Exec(ctx))
			return err
		}
		there := 0
		if err := tx.NewRaw("SELECT COUNT(*) FROM schedules WHERE name = ?", row.Name).Scan(ctx, &there); err != nil || there > 0 {
			return err
		}
		num, err := takeScheduleNumber(ctx, tx)
		if err != nil {
			return err
		}
		fresh := row
		fresh.Num = num
		_, err = tx.NewInsert().Model(&fresh).Exec(ctx)
		ok = err == nil
		return err
	})
	return ok && err == nil, err
}

// Delete deletes a schedule with all of its runs; those that go on end without a trace. Errors: ErrUnknown.
func (s *Schedules) Delete(ctx context.Context, name string) error {
	return s.write(ctx, "delete a schedule", func(ctx context.Context, tx sqldb.Tx) error {
		var nums []uint64
		if err := tx.NewRaw("SELECT num FROM schedules WHERE name = ?", sqldb.Text(name, maxMessage)).Scan(ctx, &nums); err != nil {
			return err
		}
		if len(nums) == 0 {
			return unknownSchedule(name)
		}
		if _, err := tx.NewRaw("DELETE FROM schedule_runs WHERE schedule = ?", nums[0]).Exec(ctx); err != nil {
			return err
		}
		_, err := tx.NewRaw("DELETE FROM schedules WHERE num = ?", nums[0]).Exec(ctx)
		return err
	})
}

// Agenda is what there is to do.
type Agenda struct {
	Due   []Schedule // schedules with an instant that has come, the longest ago first
	Ready []bool     // for each of the lists of kinds, whether there are runs that wait to be claimed and may be
	Next  time.Time  // when there is something else; zero if there is nothing
}

// Agenda returns what there is to do, with at most limit schedules.
func (s *Schedules) Agenda(ctx context.Context, now time.Time, limit int, kinds ...[]string) (Agenda, error) {
	var due []scheduleRow
	var ready []bool
	var next, nextRun []int64
	err := s.db.Read(ctx, "look for what is due", func(ctx context.Context, q *bun.DB) error {
		due, ready, next, nextRun = nil, nil, nil, nil
		if err := q.NewSelect().Model(&due).Where("due <= ?", sqldb.Nanos(now)).Order("due").Limit(int64(limit)).Scan(ctx); err != nil {
			return err
		}
		if err := q.NewRaw("SELECT due FROM schedules WHERE due > ? AND due < ? ORDER BY due LIMIT 1", sqldb.Nanos(now), int64(never)).Scan(ctx, &next); err != nil {
			return err
		}
		for _, list := range kinds {
			var one []int64
			err := q.NewRaw("SELECT r.id FROM schedule_runs r WHERE "+claimable+" AND r.kind IN (?) LIMIT 1", append(claimArgs(now), bun.List(list))...).Scan(ctx, &one)
			if err != nil {
				return err
			}
			ready = append(ready, len(one) > 0)
		}
		return q.NewRaw("SELECT ready FROM schedule_runs WHERE state = ? AND ready > ? AND scheduled <= ? ORDER BY ready LIMIT 1",
			ScheduleIdle, sqldb.Nanos(now), sqldb.Nanos(now)).Scan(ctx, &nextRun)
	})
	if err != nil {
		return Agenda{}, err
	}
	a := Agenda{Ready: ready}
	for i := range due {
		a.Due = append(a.Due, due[i].value())
	}
	for _, at := range append(next, nextRun...) {
		if t := time.Unix(0, at); a.Next.IsZero() || t.Before(a.Next) {
			a.Next = t
		}
	}
	return a, nil
}

// Ahead returns the schedules all of whose instants up to one that is still to come were handled: the clock was set back.
func (s *Schedules) Ahead(ctx context.Context, after time.Time) ([]Schedule, error) {
	var rows []scheduleRow
	err := s.db.Read(ctx, "look for schedules ahead of the clock", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		return q.NewSelect().Model(&rows).Where("last > ?", sqldb.Nanos(after)).Scan(ctx)
	})
	list := make([]Schedule, len(rows))
	for i := range rows {
		list[i] = rows[i].value()
	}
	return list, err
}

// Firing is what is due of a schedule.
type Firing struct {
	Schedule  Schedule  // as it was read; nothing is made if it was changed since
	Last, Due time.Time // what they are to be
	Manual    bool
	Serial    bool // its runs wait for each other
	Runs      []FiringRun
	// Admits says whether there is room for one more run, beside those that go on and those that wait. It does nothing but compute.
	Admits func(running, waiting int) bool
}

// FiringRun is a run to be.
type FiringRun struct{ Scheduled, Ready time.Time }

// Fired is what came of a firing.
type Fired struct {
	Runs    []ScheduleRun // that were made
	Skipped int           // that were not, for want of room
	Stale   bool          // the schedule was changed meanwhile: nothing was done
}

// errNoRoom ends the transaction of a run that somebody asked for.
var errNoRoom = errors.New("store: no room for one more run")

// Fire makes the runs that are due of schedules and moves the schedules on, all in one transaction. What there is no room for is noted as
// skipped, once for many in a row; a manual run that there is no room for changes nothing.
func (s *Schedules) Fire(ctx context.Context, firings []Firing, now time.Time) ([]Fired, error) {
	if len(firings) == 0 {
		return nil, nil
	}
	var out []Fired
	err := s.write(ctx, "make runs of schedules", func(ctx context.Context, tx sqldb.Tx) error {
		out = make([]Fired, len(firings))
		for i := range firings {
			var err error
			if out[i], err = fire(ctx, tx, &firings[i], now); err != nil && !errors.Is(err, errNoRoom) {
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
