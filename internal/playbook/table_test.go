package playbook_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

// base is an instant that a column can hold.
var base = time.Unix(0, time.Now().Add(-24*time.Hour).UnixNano())

// eachDatabase runs a test in an empty database of each kind.
func eachDatabase(t *testing.T, test func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) { test(t, testsqldb.Open(t, sqldb.Config{URL: kind.URL(t)})) })
	}
}

func exec(t *testing.T, db *sqldb.DB, query string) {
	t.Helper()
	err := db.WriteShared(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, query)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// addJob makes the job of a run.
func addJob(t *testing.T, db *sqldb.DB, id uint64) uint64 {
	t.Helper()
	exec(t, db, fmt.Sprintf("INSERT INTO jobs (id, lane, event, okey) VALUES (%d, 1, 0, 0)", id))
	return id
}

// numbersOf are the numbers of runs.
func numbersOf(runs []playbook.Run) []uint64 {
	ids := make([]uint64, len(runs))
	for i := range runs {
		ids[i] = runs[i].ID
	}
	return ids
}

func TestRuns(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		ctx, runs := t.Context(), playbook.NewTable(db)
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		run := playbook.Run{ID: 1, Playbook: "p", Subject: "a", Event: 7, Started: base}
		step := playbook.RunStep{Run: 1, Step: "wait", State: playbook.StepWaiting, Started: base, Wake: base.Add(time.Minute)}
		check(runs.Save(ctx, []*playbook.Change{{Run: run, Steps: []playbook.RunStep{step}}}))
		if waiting, err := runs.Waiting(ctx, []uint64{run.ID, 999}); err != nil || len(waiting) != 1 || !reflect.DeepEqual(waiting[run.ID], []playbook.RunStep{step}) {
			t.Errorf("Waiting: %+v, %v, want %+v", waiting, err, step)
		}
		run.State, run.Wake, run.Diverted = playbook.RunWaiting, base.Add(time.Minute), true
		step.State, step.Ended, step.Wake, step.Attempts = playbook.StepDone, base.Add(time.Minute), time.Time{}, 2
		step.Started = base.Add(-time.Hour) // the clock was ahead
		step.Holds, step.Output, step.Error = true, "öut\xffput", strings.Repeat("x", 2000)
		second := playbook.RunStep{Run: 1, Step: "tell", State: playbook.StepFailed, Started: base.Add(time.Minute), Ended: base.Add(time.Minute)}
		check(runs.Save(ctx, []*playbook.Change{{Run: run}, {Run: run, Steps: []playbook.RunStep{second, step}}}))

		got, steps, err := runs.Get(ctx, run.ID)
		check(err)
		step.Output, step.Error = "öut\ufffdput", step.Error[:1000]
		if !reflect.DeepEqual(got, run) || !reflect.DeepEqual(steps, []playbook.RunStep{step, second}) {
			t.Errorf("it is %+v with %+v, want %+v with %+v", got, steps, run, []playbook.RunStep{step, second})
		}
		if _, _, err := runs.Get(ctx, 999); !errors.Is(err, playbook.ErrUnknown) {
			t.Errorf("Get of nothing: %v", err)
		}

		other := playbook.Run{ID: 2, Playbook: "other", Subject: "b", State: playbook.RunDone, Started: base, Ended: base}
		check(runs.Save(ctx, []*playbook.Change{{Run: other}}))
		for _, tt := range []struct {
			name   string
			filter playbook.RunFilter
			want   []uint64
		}{
			{"all", playbook.RunFilter{}, []uint64{other.ID, run.ID}},
			{"a playbook", playbook.RunFilter{Playbook: "p"}, []uint64{run.ID}},
			{"a subject", playbook.RunFilter{Subject: "b"}, []uint64{other.ID}},
			{"states", playbook.RunFilter{States: []playbook.RunState{playbook.RunDone, playbook.RunFailed}}, []uint64{other.ID}},
			{"a page", playbook.RunFilter{Before: other.ID}, []uint64{run.ID}},
		} {
			if list, err := runs.List(ctx, tt.filter, 10); err != nil || !reflect.DeepEqual(numbersOf(list), tt.want) {
				t.Errorf("%s: %v, %v; want %v", tt.name, list, err, tt.want)
			}
		}
		if list, err := runs.Open(ctx, []string{"a", "b", "c"}); err != nil || !reflect.DeepEqual(numbersOf(list), []uint64{run.ID}) {
			t.Errorf("Open: %v, %v", list, err)
		}
		if list, err := runs.AllOpen(ctx, 0, 10); err != nil || !reflect.DeepEqual(numbersOf(list), []uint64{run.ID}) {
			t.Errorf("AllOpen: %v, %v", list, err)
		}
	})
}

func TestRunsEnd(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		ctx, runs := t.Context(), playbook.NewTable(db)
		var ids []uint64
		for _, subject := range []string{"a", "b", "c", "d", "e"} {
			ids = append(ids, addJob(t, db, uint64(len(ids)+1)))
			run := playbook.Run{ID: ids[len(ids)-1], Playbook: "p", Subject: subject, Started: base}
			if len(ids) > 2 {
				run.State, run.Ended = playbook.RunDone, base.Add(time.Duration(len(ids))*time.Hour)
			}
			if err := runs.Save(ctx, []*playbook.Change{{Run: run, Steps: []playbook.RunStep{{Step: "s", Started: base}}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := runs.Cancel(ctx, ids[0], "enough", base.Add(10*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got, _, err := runs.Get(ctx, ids[0]); err != nil || got.State != playbook.RunCanceled || got.Error != "enough" {
			t.Errorf("canceled: %+v, %v", got, err)
		}
		late := playbook.Run{ID: ids[0], Playbook: "p", Subject: "a", State: playbook.RunWaiting, Diverted: true, Started: base, Wake: base.Add(time.Hour)}
		if err := runs.Save(ctx, []*playbook.Change{{Run: late, Steps: []playbook.RunStep{{Step: "s", State: playbook.StepDone, Started: base}}}}); err != nil {
			t.Fatal(err)
		}
		want := playbook.Run{
			ID: ids[0], Playbook: "p", Subject: "a", State: playbook.RunCanceled, Started: base, Ended: base.Add(10 * time.Hour), Error: "enough",
		}
		if got, steps, err := runs.Get(ctx, ids[0]); err != nil || !reflect.DeepEqual(got, want) || steps[0].State != playbook.StepDone {
			t.Errorf("saved after it was canceled: %+v with %+v, %v, want %+v", got, steps, err, want)
		}
		if err := runs.Cancel(ctx, ids[0], "", base); !errors.Is(err, playbook.ErrEnded) {
			t.Errorf("canceled twice: %v", err)
		}
		exec(t, db, "DELETE FROM jobs WHERE id = 2")
		// c and d are too many, and c is too old as well
		removed, err := runs.Sweep(ctx, 3, 9*time.Hour, base.Add(12*time.Hour))
		if err != nil || removed != 2 {
			t.Errorf("Sweep: %d, %v, want 2", removed, err)
		}
		list, err := runs.List(ctx, playbook.RunFilter{}, 10)
		if want := []uint64{ids[4], ids[1], ids[0]}; err != nil || !reflect.DeepEqual(numbersOf(list), want) {
			t.Errorf("left are %v, %v, want %v", numbersOf(list), err, want)
		}
		if got, _, err := runs.Get(ctx, ids[1]); err != nil || got.State != playbook.RunCanceled || !strings.Contains(got.Error, "its job was removed") {
			t.Errorf("without a job: %+v, %v", got, err)
		}
	})
}

// A run whose instants no column can hold keeps the nearest ones that one can.
func TestFarRuns(t *testing.T) {
	longAgo, farAhead := time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	isFar := func(t, like time.Time) bool {
		return t.Year() == 2262 && like.Year() > 2262 || t.Year() == 1677 && like.Year() < 1677
	}
	eachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		runs := playbook.NewTable(db)
		run := playbook.Run{ID: 7, Playbook: "p", Subject: "a", State: playbook.RunWaiting, Started: longAgo, Wake: farAhead}
		step := playbook.RunStep{Step: "wait", State: playbook.StepWaiting, Started: longAgo, Wake: farAhead}
		if err := runs.Save(t.Context(), []*playbook.Change{{Run: run, Steps: []playbook.RunStep{step}}}); err != nil {
			t.Fatal(err)
		}
		run, steps, err := runs.Get(t.Context(), 7)
		if err != nil || !isFar(run.Started, longAgo) || !isFar(run.Wake, farAhead) || !isFar(steps[0].Started, longAgo) || !isFar(steps[0].Wake, farAhead) {
			t.Errorf("run %+v with %+v, %v", run, steps, err)
		}
	})
}

// A wall clock that is a month ahead for a while makes no run too old.
func TestSweepClockAhead(t *testing.T) {
	const day = 24 * time.Hour
	ahead := time.Duration(0)
	runs := playbook.NewTable(testsqldb.Open(t, sqldb.Config{URL: testdb.SQLite(t), Wall: func() time.Time { return time.Now().Add(ahead) }}))
	run := playbook.Run{ID: 99, Playbook: "p", Subject: "a", State: playbook.RunDone, Started: base, Ended: base}
	if err := runs.Save(t.Context(), []*playbook.Change{{Run: run}}); err != nil {
		t.Fatal(err)
	}
	for _, ahead = range []time.Duration{30 * day, 0, -20 * 365 * day, 0} {
		if n, err := runs.Sweep(t.Context(), 10, 10*day, time.Now().Add(ahead)); n != 0 || err != nil {
			t.Errorf("%v ahead: %d runs are deleted, %v", ahead, n, err)
		}
	}
}
