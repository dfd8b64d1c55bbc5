package store_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/store"
)

// runsOf are the numbers of runs.
func runsOf(runs []store.Run) []uint64 {
	ids := make([]uint64, len(runs))
	for i := range runs {
		ids[i] = runs[i].ID
	}
	return ids
}

func TestRuns(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		ctx, runs, q := t.Context(), s.Runs(), newQueue(t, s)
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		run := store.Run{ID: q.add("a"), Playbook: "p", Subject: "a", Event: 7, Started: base}
		step := store.RunStep{Step: "wait", State: store.StepWaiting, Started: base, Wake: base.Add(time.Minute)}
		check(runs.Save(ctx, []*store.RunChange{{Run: run, Steps: []store.RunStep{step}}}))
		if waiting, err := runs.Waiting(ctx, []uint64{run.ID, 999}); err != nil || len(waiting) != 1 || !reflect.DeepEqual(waiting[run.ID], []store.RunStep{step}) {
			t.Errorf("Waiting: %+v, %v, want %+v", waiting, err, step)
		}
		run.State, run.Wake, run.Diverted = store.RunWaiting, base.Add(time.Minute), true
		step.State, step.Ended, step.Wake, step.Attempts = store.StepDone, base.Add(time.Minute), time.Time{}, 2
		step.Started = base.Add(-time.Hour) // the clock was ahead
		step.Holds, step.Output, step.Error = true, "öut\xffput", strings.Repeat("x", 2000)
		second := store.RunStep{Step: "tell", State: store.StepFailed, Started: base.Add(time.Minute), Ended: base.Add(time.Minute)}
		check(runs.Save(ctx, []*store.RunChange{{Run: run}, {Run: run, Steps: []store.RunStep{second, step}}}))

		got, steps, err := runs.Get(ctx, run.ID)
		check(err)
		step.Output, step.Error = "öut\ufffdput", step.Error[:1000]
		if !reflect.DeepEqual(got, run) || !reflect.DeepEqual(steps, []store.RunStep{step, second}) {
			t.Errorf("it is %+v with %+v, want %+v with %+v", got, steps, run, []store.RunStep{step, second})
		}
		if _, _, err := runs.Get(ctx, 999); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("Get of nothing: %v", err)
		}

		other := store.Run{ID: q.add("b"), Playbook: "other", Subject: "b", State: store.RunDone, Started: base, Ended: base}
		check(runs.Save(ctx, []*store.RunChange{{Run: other}}))
		for _, tt := range []struct {
			name   string
			filter store.RunFilter
			want   []uint64
		}{
			{"all", store.RunFilter{}, []uint64{other.ID, run.ID}},
			{"a playbook", store.RunFilter{Playbook: "p"}, []uint64{run.ID}},
			{"a subject", store.RunFilter{Subject: "b"}, []uint64{other.ID}},
			{"states", store.RunFilter{States: []store.RunState{store.RunDone, store.RunFailed}}, []uint64{other.ID}},
			{"a page", store.RunFilter{Before: other.ID}, []uint64{run.ID}},
		} {
			if list, err := runs.List(ctx, tt.filter, 10); err != nil || !reflect.DeepEqual(runsOf(list), tt.want) {
				t.Errorf("%s: %v, %v; want %v", tt.name, list, err, tt.want)
			}
		}
		if list, err := runs.Open(ctx, []string{"a", "b", "c"}); err != nil || !reflect.DeepEqual(runsOf(list), []uint64{run.ID}) {
			t.Errorf("Open: %v, %v", list, err)
		}
		if list, err := runs.AllOpen(ctx, 0, 10); err != nil || !reflect.DeepEqual(runsOf(list), []uint64{run.ID}) {
			t.Errorf("AllOpen: %v, %v", list, err)
		}
	})
}

func TestRunsEnd(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		ctx, runs, q := t.Context(), s.Runs(), newQueue(t, s)
		var ids []uint64
		for _, subject := range []string{"a", "b", "c", "d", "e"} {
			ids = append(ids, q.add(subject))
			run := store.Run{ID: ids[len(ids)-1], Playbook: "p", Subject: subject, Started: base}
			if len(ids) > 2 {
				run.State, run.Ended = store.RunDone, base.Add(time.Duration(len(ids))*time.Hour)
			}
			if err := runs.Save(ctx, []*store.RunChange{{Run: run, Steps: []store.RunStep{{Step: "s", Started: base}}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := runs.Cancel(ctx, ids[0], "enough", base.Add(10*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got, _, err := runs.Get(ctx, ids[0]); err != nil || got.State != store.RunCanceled || got.Error != "enough" || s.Jobs().Depths()[lane] != 4 {
			t.Errorf("canceled: %+v, %v; jobs %v", got, err, s.Jobs().Depths())
		}
		late := store.Run{ID: ids[0], Playbook: "p", Subject: "a", State: store.RunWaiting, Diverted: true, Started: base, Wake: base.Add(time.Hour)}
		if err := runs.Save(ctx, []*store.RunChange{{Run: late, Steps: []store.RunStep{{Step: "s", State: store.StepDone, Started: base}}}}); err != nil {
			t.Fatal(err)
		}
		want := store.Run{
			ID: ids[0], Playbook: "p", Subject: "a", State: store.RunCanceled, Started: base, Ended: base.Add(10 * time.Hour), Error: "enough",
		}
		if got, steps, err := runs.Get(ctx, ids[0]); err != nil || !reflect.DeepEqual(got, want) || steps[0].State != store.StepDone {
			t.Errorf("saved after it was canceled: %+v with %+v, %v, want %+v", got, steps, err, want)
		}
		if err := runs.Cancel(ctx, ids[0], "", base); !errors.Is(err, store.ErrInUse) {
			t.Errorf("canceled twice: %v", err)
		}
		if _, err := s.Jobs().Remove(ctx, store.JobFilter{IDs: ids[1:2]}); err != nil {
			t.Fatal(err)
		}
		// c and d are too many, and c is too old as well
		removed, err := runs.Sweep(ctx, 3, 9*time.Hour, base.Add(12*time.Hour))
		if err != nil || removed != 2 {
			t.Errorf("Sweep: %d, %v, want 2", removed, err)
		}
		list, err := runs.List(ctx, store.RunFilter{}, 10)
		if want := []uint64{ids[4], ids[1], ids[0]}; err != nil || !reflect.DeepEqual(runsOf(list), want) {
			t.Errorf("left are %v, %v, want %v", runsOf(list), err, want)
		}
		if got, _, err := runs.Get(ctx, ids[1]); err != nil || got.State != store.RunCanceled || !strings.Contains(got.Error, "its job was removed") {
			t.Errorf("without a job: %+v, %v", got, err)
		}
	})
}

func TestWake(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		waiting, claimed, fresh := q.add("a"), q.add("b"), uint64(0)
		jobs := q.claim(2).Jobs
		q.settle(store.Outcome{Job: jobs[0], Verdict: store.Postpone, RunAt: q.now.Add(time.Hour)})
		fresh = q.add("c")
		var told []store.Lane
		s.Jobs().Watch(func(lanes []store.Lane) { told = append(told, lanes...) })
		got, err := s.Jobs().Wake(t.Context(), []uint64{waiting, claimed, fresh, 999})
		if err != nil || !reflect.DeepEqual(got, []uint64{claimed}) || len(told) != 1 || told[0] != lane {
			t.Errorf("Wake: %v, %v, told of %v; want %v", got, err, told, claimed)
		}
		q.want("what is woken and what is new", q.claim(10).Jobs, waiting, fresh)
	})
}
