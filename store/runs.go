package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/sqldb"
)

// RunState says how far a run of a playbook is.
type RunState uint8

// The states of a run. The first two are open, the others final.
const (
	RunRunning   RunState = iota
	RunWaiting            // until Wake
	RunDone               // all steps are done or were skipped
	RunFailed             // a step failed
	RunRecovered          // what it was about is over
	RunCanceled           // somebody ended it
)

func (s RunState) String() string {
	if names := runStates(); int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

func runStates() []string {
	return []string{"running", "waiting", "done", "failed", "recovered", "canceled"}
}

// RunStateOf returns the state that a name stands for.
func RunStateOf(name string) (RunState, bool) {
	i := slices.Index(runStates(), name)
	return RunState(max(i, 0)), i >= 0
}

// Final says whether nothing follows.
func (s RunState) Final() bool { return s >= RunDone }

// StepState says how far a step of a run is.
type StepState uint8

// The states of a step.
const (
	StepPending StepState = iota // it has not begun; there is no row of it
	StepWaiting                  // until Wake
	StepDone
	StepFailed
)

func (s StepState) String() string {
	if names := []string{"pending", "waiting", "done", "failed"}; int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

// Run is a run of a playbook.
type Run struct {
	ID       uint64 // number of its job
	Playbook string
	Subject  string
	Event    uint64 // offset of the event that began it; 0 if none did
	State    RunState
	Diverted bool // the steps that follow a recovery are run
	Started  time.Time
	Ended    time.Time // zero while it is open
	Wake     time.Time // of one that waits
	Error    string    // why it is not done
}

// RunStep is a step of a run that has begun.
type RunStep struct {
	Step     string
	State    StepState
	Attempts int // that failed; of a probe, questions that were put
	Started  time.Time
	Ended    time.Time // zero while it waits
	Wake     time.Time // of one that waits
	Holds    bool      // of a condition
	Output   string
	Error    string
}

// RunChange is a run as it is now, with the steps that have changed.
type RunChange struct {
	Run   Run
	Steps []RunStep
}

// Runs are the runs of playbooks in a [Store]. All methods may be called concurrently. Who writes is fenced and takes turns as with [Jobs].
type Runs struct {
	jobs *Jobs
	db   *sqldb.DB
}

// Runs returns the runs in the store.
func (s *Store) Runs() *Runs { return &Runs{s.jobs, s.db} }

type runRow struct {
	bun.BaseModel `bun:"table:runs"`

	ID       uint64 `bun:"id,pk"`
	Playbook string `bun:"playbook"`
	Subject  string `bun:"subject"`
	Event    uint64 `bun:"event"`
	State    int    `bun:"state"`
	Diverted int    `bun:"diverted"`
	Started  int64  `bun:"started"`
	Ended    int64  `bun:"ended"`
	Wake     int64  `bun:"wake"`
	Error    string `bun:"error"`
}

func (r *runRow) value() Run {
	return Run{
		ID: r.ID, Playbook: r.Playbook, Subject: r.Subject, Event: r.Event, State: RunState(r.State), Diverted: r.Diverted != 0,
		Started: sqldb.Time(r.Started), Ended: sqldb.Time(r.Ended), Wake: sqldb.Time(r.Wake), Error: r.Error,
	}
}

type stepRow struct {
	bun.BaseModel `bun:"table:run_steps"`

	Run      uint64 `bun:"run,pk"`
	Step     string `bun:"step,pk"`
	State    int    `bun:"state"`
	Attempts int    `bun:"attempts"`
	Started  int64  `bun:"started"`
	Ended    int64  `bun:"ended"`
	Wake     int64  `bun:"wake"`
	Holds    int    `bun:"holds"`
	Output   string `bun:"output"`
	Error    string `bun:"error"`
}

func (r *stepRow) value() RunStep {
	return RunStep{
		Step: r.Step, State: StepState(r.State), Attempts: r.Attempts, Started: sqldb.Time(r.Started), Ended: sqldb.Time(r.Ended), Wake: sqldb.Time(r.Wake),
		Holds: r.Holds != 0, Output: r.Output, Error: r.Error,
	}
}

// Get returns a run and its steps. Errors: ErrUnknown.
func (r *Runs) Get(ctx context.Context, id uint64) (Run, []RunStep, error) {
	var runs []runRow
	var rows []stepRow
	err := r.db.Read(ctx, "read runs of playbooks", func(ctx context.Context, q *bun.DB) error {
		runs, rows = nil, nil
		if err := q.NewSelect().Model(&runs).Where("id = ?", id).Scan(ctx); err != nil || len(runs) == 0 {
			return err
		}
		return q.NewSelect().Model(&rows).Where("run = ?", id).Order("started", "step").Scan(ctx)
	})
	if err != nil {
		return Run{}, nil, err
	}
	if len(runs) == 0 {
		return Run{}, nil, errkind.Errorf(ErrUnknown, "there is no run %d; it may be too old to be kept", id)
	}
	steps := make([]RunStep, len(rows))
	for i := range rows {
		steps[i] = rows[i].value()
	}
	return runs[0].value(), steps, nil
}

// RunFilter chooses runs. The zero one chooses all.
type RunFilter struct {
	Playbook string // empty: all
	Subject  string // empty: all
	States   []RunState
	Before   uint64 // only with a smaller number; 0 for all
}

// List returns up to limit runs, the latest first.
func (r *Runs) List(ctx context.Context, filter RunFilter, limit int) ([]Run, error) {
	var rows []runRow
	err := r.db.Read(ctx, "read runs of playbooks", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		find := q.NewSelect().Model(&rows).Order("id DESC").Limit(int64(limit))
		if filter.Playbook != "" {
			find = find.Where("playbook = ?", filter.Playbook)
		}
		if filter.Subject != "" {
			find = find.Where("subject = ?", filter.Subject)
		}
		if len(filter.States) > 0 {
			find = find.Where("state IN (?)", bun.List(stateNumbers(filter.States)))
		}
		if filter.Before > 0 {
			find = find.Where("id < ?", filter.Before)
		}
		return find.Scan(ctx)
	})
	return valuesOf(rows), err
}

func stateNumbers(states []RunState) []int {
	numbers := make([]int, len(states))
	for i, s := range states {
		numbers[i] = int(s)
	}
	return numbers
}

// Open returns the open runs of some subjects, at most 1000 of them at a time, by number.
func (r *Runs) Open(ctx context.Context, subjects []string) ([]Run, error) {
	var rows []runRow
	err := r.db.Read(ctx, "read runs of playbooks", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		return q.NewSelect().Model(&rows).Where("subject IN (?) AND state < 2", bun.List(subjects)).Order("id").Scan(ctx)
	})
	return valuesOf(rows), err
}

// AllOpen returns up to limit open runs with a greater number, by number.
func (r *Runs) AllOpen(ctx context.Context, after uint64, limit int) ([]Run, error) {
	var rows []runRow
	err := r.db.Read(ctx, "read runs of playbooks", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		return q.NewSelect().Model(&rows).Where("id > ? AND state < 2", after).Order("id").Limit(int64(limit)).Scan(ctx)
	})
	return valuesOf(rows), err
}

// Waiting returns the steps that wait, of some runs, at most 1000 of them at a time.
func (r *Runs) Waiting(ctx context.Context, ids []uint64) (map[uint64][]RunStep, error) {
	var rows []stepRow
	err := r.db.Read(ctx, "read runs of playbooks", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		return q.NewSelect().Model(&rows).Where("run IN (?) AND state = ?", bun.List(append([]uint64{0}, ids...)), int(StepWaiting)).Scan(ctx)
	})
	steps := make(map[uint64][]RunStep)
	for i := range rows {
		steps[rows[i].Run] = append(steps[rows[i].Run], rows[i].value())
	}
	return steps, err
}

func valuesOf(rows []runRow) []Run {
	runs := make([]Run, len(rows))
	for i := range rows {
		runs[i] = rows[i].value()
	}
	return runs
}

const maxOutput = 4096

// Save writes down how far runs are, all or none: what was known of a run and of each of the steps is overwritten. A run that has ended stays
// as it ended, whatever who worked on it meanwhile makes of it.
func (r *Runs) Save(ctx context.Context, changes []*RunChange) error {
	if len(changes) == 0 {
		return nil
	}
	return r.db.Write(ctx, "write runs of playbooks", func(ctx context.Context, tx sqldb.Tx) error {
		putRun := "INSERT INTO runs (id, playbook, subject, event, state, diverted, started, ended, wake, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" +
			unlessEnded(tx, "diverted", "ended", "wake", "error", "state")
		putStep := "INSERT INTO run_steps (run, step, state, attempts, started, ended, wake, holds, output, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" +
			tx.Upsert("run, step", "state", "attempts", "started", "ended", "wake", "holds", "output", "error")
		for i := range changes {
			run := &changes[i].Run
			_, err := tx.NewRaw(putRun, run.ID, run.Playbook, run.Subject, run.Event, int(run.State), flag(run.Diverted, 1), sqldb.Nanos(run.Started),
				sqldb.Nanos(run.Ended), sqldb.Nanos(run.Wake), sqldb.Text(run.Error, maxJobError)).Exec(ctx)
			if err != nil {
				return err
			}
			for _, s := range changes[i].Steps {
				_, err := tx.NewRaw(putStep, run.ID, s.Step, int(s.State), s.Attempts, sqldb.Nanos(s.Started), sqldb.Nanos(s.Ended), sqldb.Nanos(s.Wake), flag(s.Holds, 1),
					sqldb.Text(s.Output, maxOutput), sqldb.Text(s.Error, maxJobError)).Exec(ctx)
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// unlessEnded returns the end of an INSERT that overwrites columns of a run if it is open. The state has to be the last of them: MariaDB and
// MySQL look at what was set before it.
func unlessEnded(tx sqldb.Tx, columns ...string) string {
	sets := make([]string, len(columns))
	for i, c := range columns {
		_, value, _ := strings.Cut(tx.Upsert("id", c), c+" = ")
		sets[i] = fmt.Sprintf("%[1]s = CASE WHEN runs.state < 2 THEN %[2]s ELSE runs.%[1]s END", c, value)
	}
	return tx.Upsert("id") + strings.Join(sets, ", ")
}

// Cancel ends an open run for good: its job is removed. A step that is being worked on may end nevertheless. Errors: ErrUnknown, ErrInUse
// for a run that has ended.
func (r *Runs) Cancel(ctx context.Context, id uint64, why string, now time.Time) error {
	run, _, err := r.Get(ctx, id)
	if err != nil {
		return err
	}
	if run.State.Final() {
		return errkind.Errorf(ErrInUse, "run %d has ended already: it is %s", id, run.State)
	}
	err = r.db.Write(ctx, "cancel a run", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.NewRaw("UPDATE runs SET state = ?, ended = ?, wake = 0, error = ? WHERE id = ? AND state < 2", int(RunCanceled), sqldb.Nanos(now), why, id).Exec(ctx)
		return err
	})
	if err != nil {
		return err
	}
	_, err = r.jobs.Remove(ctx, JobFilter{IDs: []uint64{id}})
	return err
}

// Sweep removes all but the latest runs that have ended, and those that ended too long ago, some at a time; it says how many. It also ends
// open runs whose jobs were removed. A clock that is ahead for a while makes none too old.
func (r *Runs) Sweep(ctx context.Context, keep int, age time.Duration, now time.Time) (removed int, err error) {
	const abandoned = "UPDATE runs SET state = ?, ended = ?, wake = 0, error = ? WHERE state < 2 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = runs.id)"
	err = r.db.Write(ctx, "end runs without a job", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.NewRaw(abandoned, int(RunCanceled), sqldb.Nanos(now), "its job was removed, or became a dead letter").Exec(ctx)
		return err
	})
	for err == nil && ctx.Err() == nil {
		var n int64
		err = r.db.Write(ctx, "remove old runs", func(ctx context.Context, tx sqldb.Tx) error {
			ids, err := oldRuns(ctx, tx, keep, r.db.OldBefore(now, age))
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

// oldRuns returns some of the oldest runs that are too many or ended too long ago.
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
	err := tx.NewRaw("SELECT id FROM runs WHERE state >= 2 AND ended < ? ORDER BY ended LIMIT ?", oldest, idsPerStatement).Scan(ctx, &ids)
	return ids, err
}
