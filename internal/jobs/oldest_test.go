package jobs_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// The oldest job of a lane is the first that does not wait for a time of its own, whatever else it waits
// for.
func TestOldest(t *testing.T) {
	eachDatabase(t, config{Outbox: everything}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		oldest := func(what string, event bool, want time.Time) {
			t.Helper()
			got, err := q.jobs.Oldest(t.Context(), q.now)
			q.check(err)
			switch {
			case len(got) == 0 && want.IsZero() && !event: // there are none
			case len(got) != 1 || got[0].Lane != lane || (got[0].Event != 0) != event || !got[0].Created.Equal(want):
				t.Errorf("%s: Oldest = %+v, want %v, of an event %v", what, got, want, event)
			}
		}
		oldest("no jobs", false, time.Time{})
		q.enqueue(jobs.Spec{Lane: lane, RunAt: q.now.Add(time.Hour), Body: jobs.Body{Created: q.now.Add(time.Hour)}})
		oldest("one that is to run later", false, time.Time{})
		first := q.add("k")
		q.now = q.now.Add(time.Minute)
		q.add("k")
		oldest("a new one", false, base)
		job := q.claim(1).Jobs[0]
		oldest("a claimed one", false, base)
		q.ack(jobs.Ack{Job: job, Outcome: jobs.Retry, RunAt: q.now.Add(time.Minute), Error: "no"})
		q.claim(2) // blocks the second
		oldest("one that failed", false, base)
		_, err := q.jobs.Delete(t.Context(), jobs.Filter{IDs: []uint64{first}})
		q.check(err)
		oldest("the one behind it", false, q.now)
		job = q.claim(1).Jobs[0]
		q.ack(jobs.Ack{Job: job, Outcome: jobs.Postpone, RunAt: q.now.Add(time.Minute)})
		oldest("one that asked for its time", false, time.Time{})
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
		oldest("an event", true, time.Time{})
		q.now = q.now.Add(time.Hour)
		oldest("all may run", true, base.Add(2*time.Minute))
	})
}
