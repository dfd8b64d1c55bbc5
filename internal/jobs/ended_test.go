package jobs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// get returns a job as it is shown.
func (q *queue) get(id uint64) jobs.View {
	q.t.Helper()
	v, err := q.jobs.Get(q.t.Context(), id, q.now)
	if err != nil {
		q.t.Fatal(err)
	}
	return v
}

// findEnded returns the numbers of the jobs that a query for jobs that ended selects, page by page.
func (q *queue) findEnded(query jobs.Query, limit int) (ids []uint64) {
	q.t.Helper()
	for {
		views, next, err := q.jobs.Find(q.t.Context(), query, limit, q.now)
		q.check(err)
		for i := range views {
			ids = append(ids, views[i].ID)
		}
		if next == 0 {
			return ids
		}
		query.After = next
	}
}

// What is shown of a job stays after its end: how it ended, after how many attempts, when, and what the
// receiver said.
func TestEnded(t *testing.T) {
	eachDatabase(t, config{Outbox: everything}, func(t *testing.T, s *rig) {
		t.Helper()
		s.jobs.KeepEnded(true)
		q := newQueue(t, s)
		body := jobs.Body{Name: "report.pdf", Key: "k", URL: "https://worker.example/x", Data: []byte("{}"), Created: q.now}
		done := q.enqueue(jobs.Spec{Lane: lane, Body: body})
		dead := q.enqueue(jobs.Spec{Lane: lane, Body: jobs.Body{Created: q.now}})
		deleted := q.enqueue(jobs.Spec{Lane: lane, Body: body})

		first := q.claim(2).Jobs
		q.ack(jobs.Ack{Job: first[0], Outcome: jobs.Retry, RunAt: q.now, Error: "status 500"}, jobs.Ack{Job: first[1], Outcome: jobs.Dead, Error: "refused", Status: 400, Started: q.now})
		again := q.claim(1).Jobs
		q.now = q.now.Add(3 * time.Second)
		q.ack(jobs.Ack{Job: again[0], Body: body, Status: 202, Response: "thanks" + strings.Repeat("!", 2000), Started: q.now.Add(-2 * time.Second)})
		if _, err := q.jobs.Delete(t.Context(), jobs.Filter{IDs: []uint64{deleted}}); err != nil {
			t.Fatal(err)
		}

		v := q.get(done)
		if v.State != jobs.StateDone || v.Attempts != 1 || v.Error != "status 500" || v.Status != 202 || !strings.HasPrefix(v.Response, "thanks!") || len(v.Response) != 1000 ||
			v.Name != "report.pdf" || v.OrderingKey != "k" || v.URL != body.URL || !v.Created.Equal(base) || v.Ended.Sub(v.Started) != 2*time.Second || v.Term() != s.db.Fence() {
			t.Errorf("the delivered job is shown as %+v", v)
		}
		if v := q.get(dead); v.State != jobs.StateDead || v.Error != "refused" || v.Status != 400 || v.Ended.IsZero() {
			t.Errorf("the dead letter is shown as %+v", v)
		}
		if v := q.get(deleted); v.State != jobs.StateDeleted || v.Name != "report.pdf" || v.Ended.IsZero() || !v.Started.IsZero() || !v.RunAt.IsZero() {
			t.Errorf("the deleted job is shown as %+v", v)
		}
		for state, want := range map[jobs.State]uint64{jobs.StateDone: done, jobs.StateDead: dead, jobs.StateDeleted: deleted} {
			if got := q.findEnded(jobs.Query{State: state}, 10); !slices.Equal(got, []uint64{want}) {
				t.Errorf("jobs that are %s: %v, want %d", state, got, want)
			}
		}
		if got := q.find(jobs.Query{}, 10); len(got) != 0 {
			t.Errorf("jobs %v have not ended", got)
		}
		if _, err := q.jobs.Get(t.Context(), deleted+1, q.now); !errors.Is(err, jobs.ErrUnknown) {
			t.Errorf("Get of a job that never was: %v, want ErrUnknown", err)
		}
	})
}

// Jobs that ended are found by name, key and lane, the latest first, and the oldest are forgotten first.
func TestEndedFound(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		s.jobs.KeepEnded(true)
		q := newQueue(t, s)
		for i, name := range []string{"a.1", "b.1", "a.2", "a.3"} {
			id := q.enqueue(jobs.Spec{Lane: lane, Body: jobs.Body{Name: name, Key: []string{"x", "y"}[i%2], Created: q.now}})
			q.ack(jobs.Ack{Job: q.claim(1).Jobs[0], Started: q.now, Body: jobs.Body{Name: name, Key: []string{"x", "y"}[i%2]}})
			q.now = q.now.Add(time.Hour)
			if id != uint64(i+1) {
				t.Fatalf("the job has the number %d, want %d", id, i+1)
			}
		}
		for name, tt := range map[string]struct {
			query jobs.Query
			want  []uint64
		}{
			"all":          {jobs.Query{}, []uint64{4, 3, 2, 1}},
			"a name":       {jobs.Query{Name: "a.*"}, []uint64{4, 3, 1}},
			"a key":        {jobs.Query{Key: "y"}, []uint64{4, 2}},
			"a lane":       {jobs.Query{Filter: jobs.Filter{Lanes: []jobs.Lane{lane}}}, []uint64{4, 3, 2, 1}},
			"another lane": {jobs.Query{Filter: jobs.Filter{Lanes: []jobs.Lane{{Queue: 7}}}}, nil},
		} {
			tt.query.State = jobs.StateDone
			for _, limit := range []int{1, 2, 10} {
				if got := q.findEnded(tt.query, limit); !slices.Equal(got, tt.want) {
					t.Errorf("%s, %d on a page: %v, want %v", name, limit, got, tt.want)
				}
			}
		}
		sweep := func(keep jobs.Retention, want ...uint64) {
			t.Helper()
			keep.Dead, keep.DeadAge, keep.KeyAge = 10, time.Hour, time.Hour
			if _, err := q.jobs.Sweep(t.Context(), keep, q.now); err != nil {
				t.Fatal(err)
			}
			if got := q.findEnded(jobs.Query{State: jobs.StateDone}, 10); !slices.Equal(got, want) {
				t.Errorf("after Sweep(%+v): %v, want %v", keep, got, want)
			}
		}
		sweep(jobs.Retention{Ended: 3, EndedAge: 24 * time.Hour}, 4, 3, 2)
		sweep(jobs.Retention{Ended: 3, EndedAge: 150 * time.Minute}, 4, 3)
	})
}

// Nothing is kept of the job of an event but what it was, and nothing at all unless that is wanted.
func TestEndedOfEvents(t *testing.T) {
	anyDatabase(t, config{Outbox: everything}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		for seq, keep := range []bool{false, true} {
			s.jobs.KeepEnded(keep)
			appendAll(t, s, device(1, "dev-1", uint64(seq+1), liveness.DeviceOnline))
			job := q.claim(1).Jobs[0]
			q.ack(jobs.Ack{Job: job, Started: q.now, Body: jobs.Body{Key: "dev-1", Created: base}})
			v, err := q.jobs.Get(t.Context(), job.ID, q.now)
			if kept := err == nil; kept != keep || keep && (v.Event != job.Event || v.OrderingKey != "dev-1") {
				t.Errorf("with KeepEnded(%v) the job is shown as %+v, %v", keep, v, err)
			}
		}
	})
}
