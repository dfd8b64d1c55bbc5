package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

func (q *queue) reschedule(id uint64, in time.Duration) {
	q.t.Helper()
	if err := q.jobs.Reschedule(q.t.Context(), id, q.now.Add(in), q.now); err != nil {
		q.t.Fatal(err)
	}
}

// A job is put off and brought forward, and those behind it with its key follow at once unless it has
// failed before.
func TestReschedule(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		first, second := q.add("k"), q.add("k")
		q.reschedule(first, time.Hour)
		if v := q.get(first); v.State != jobs.StateWaiting || !v.RunAt.Equal(q.now.Add(time.Hour)) || !v.Created.Equal(v.RunAt) {
			t.Errorf("the job that was put off is shown as %+v", v)
		}
		got := q.claim(10)
		q.want("while the first is put off", got.Jobs, second)
		q.ack(jobs.Ack{Job: got.Jobs[0]})
		q.reschedule(first, 0)
		if v := q.get(first); v.State != jobs.StateReady || !v.Created.Equal(q.now) {
			t.Errorf("the job that was brought forward is shown as %+v", v)
		}
		claimed := q.claim(10).Jobs
		q.want("brought forward", claimed, first)

		third := q.add("k")
		q.ack(jobs.Ack{Job: claimed[0], Outcome: jobs.Retry, RunAt: q.now.Add(time.Minute), Error: "no"})
		if err := q.jobs.Reschedule(t.Context(), first, q.now.Add(30*time.Hour), q.now); !errors.Is(err, jobs.ErrBad) {
			t.Errorf("Reschedule of a failed job by 30 h: %v, want ErrBad", err)
		}
		q.reschedule(first, 2*time.Hour)
		q.want("behind one that failed", q.claim(10).Jobs)
		if err := q.jobs.Reschedule(t.Context(), third, q.now, q.now); !errors.Is(err, jobs.ErrInUse) {
			t.Errorf("Reschedule of a blocked job: %v, want ErrInUse", err)
		}
		q.now = q.now.Add(2 * time.Hour)
		q.want("the one that failed", q.claim(1).Jobs, first)
	})
}

func TestRescheduleRefused(t *testing.T) {
	eachDatabase(t, config{Outbox: everything}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		claimed := q.add("")
		q.claim(1)
		dated := q.enqueue(jobs.Spec{Lane: lane, Body: jobs.Body{Created: q.now, Deadline: q.now.Add(time.Hour)}})
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
		event := dated + 1
		for _, tt := range []struct {
			name string
			id   uint64
			in   time.Duration
			want error
		}{
			{"unknown", 99, 0, jobs.ErrUnknown},
			{"being delivered", claimed, time.Minute, jobs.ErrInUse},
			{"at its deadline", dated, time.Hour, jobs.ErrBad},
			{"before its deadline", dated, time.Hour - 1, nil},
			{"in eleven years", dated, 11 * 365 * 24 * time.Hour, jobs.ErrBad},
			{"before 1970", dated, -100 * 365 * 24 * time.Hour, jobs.ErrBad},
			{"an event, later", event, time.Minute, jobs.ErrBad},
			{"an event, at once", event, 0, nil},
		} {
			if err := q.jobs.Reschedule(t.Context(), tt.id, q.now.Add(tt.in), q.now); !errors.Is(err, tt.want) {
				t.Errorf("Reschedule of a job, %s: %v, want %v", tt.name, err, tt.want)
			}
		}
		q.want("the job of the event", q.claim(10).Jobs, event)
	})
}

// A job that fails is shown with the time of its next attempt, also if it is brought forward among others
// with a name and a key that wait behind it.
func TestRescheduleReleases(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		spec := jobs.Spec{Lane: lane, Body: jobs.Body{Name: "heavy", Key: "k", Created: q.now}}
		first, second := q.enqueue(spec), q.enqueue(spec)
		claimed := q.claim(10).Jobs
		q.want("both", claimed, first, second)
		q.ack(jobs.Ack{Job: claimed[0], Outcome: jobs.Return}, jobs.Ack{Job: claimed[1], Outcome: jobs.Block})
		if v := q.get(second); v.State != jobs.StateBlocked {
			t.Fatalf("the second job is %s, want blocked", v.State)
		}
		q.reschedule(first, time.Hour)
		q.want("those behind the one that was put off", q.claim(10).Jobs, second)
	})
}
