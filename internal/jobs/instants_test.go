package jobs_test

import (
	"math"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// Instants that no number of nanoseconds since 1970 stands for, and the zero time, which stands for none.
var (
	longAgo  = time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)
	farAhead = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// isFar reports whether an instant is kept as the last one that can be, or the first.
func isFar(t, like time.Time) bool {
	if like.After(time.Now()) {
		return t.Year() == 2262
	}
	return t.Year() == 1677
}

// What is due in a year that cannot be kept is due as late as can be, or at once; never at another time.
func TestFarJobs(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		views := func() map[uint64]jobs.View {
			t.Helper()
			list, err := s.jobs.List(t.Context(), jobs.Filter{}, 100, q.now)
			if err != nil {
				t.Fatal(err)
			}
			m := make(map[uint64]jobs.View)
			for _, v := range list {
				m[v.ID] = v
			}
			return m
		}
		early := q.enqueue(jobs.Spec{Lane: lane, RunAt: longAgo, Body: jobs.Body{Created: longAgo, Deadline: farAhead}})
		late := q.enqueue(jobs.Spec{Lane: lane, RunAt: farAhead, Body: jobs.Body{Created: farAhead, Deadline: longAgo}})
		got := q.claim(10)
		q.want("of 1500 and 9999", got.Jobs, early)
		if b := got.Jobs[0].Body; !isFar(b.Created, longAgo) || !isFar(b.Deadline, farAhead) {
			t.Errorf("created %v, deadline %v, want 1500 and 9999 or as near as can be", b.Created, b.Deadline)
		}
		if v := views()[late]; v.State != jobs.StateWaiting || !isFar(v.RunAt, farAhead) {
			t.Errorf("to run in 9999: %s until %v", v.State, v.RunAt)
		}
		if err := s.jobs.Extend(t.Context(), got.Jobs, farAhead); err != nil {
			t.Fatal(err)
		}
		if v := views()[early]; v.State != jobs.StateClaimed || !isFar(v.LeasedUntil, farAhead) || !v.RunAt.IsZero() {
			t.Errorf("with a lease until 9999: %s until %v, to run at %v", v.State, v.LeasedUntil, v.RunAt)
		}
		q.ack(jobs.Ack{Job: got.Jobs[0], Outcome: jobs.Retry, RunAt: farAhead, Error: "no"})
		if v := views()[early]; v.State != jobs.StateWaiting || !isFar(v.RunAt, farAhead) {
			t.Errorf("to be tried again in 9999: %s until %v", v.State, v.RunAt)
		}
		if n, err := s.jobs.RetryNow(t.Context(), []jobs.Lane{lane}); n != 1 || err != nil {
			t.Errorf("RetryNow = %d, %v", n, err)
		}
		for _, at := range []time.Time{longAgo, {}} {
			got = q.claim(10)
			q.want("retried now, or to be tried again long ago", got.Jobs, early)
			q.ack(jobs.Ack{Job: got.Jobs[0], Outcome: jobs.Retry, RunAt: at, Error: "no"})
			if v := views()[early]; v.State != jobs.StateReady || v.RunAt.Year() == 1754 {
				t.Errorf("to be tried again at %v: %s until %v", at, v.State, v.RunAt)
			}
		}
		if _, err := s.jobs.Wake(t.Context(), []uint64{late}); err != nil {
			t.Fatal(err)
		}
		got = q.claim(10)
		q.want("woken", got.Jobs, early, late)
		if b := got.Jobs[1].Body; !isFar(b.Created, farAhead) || !isFar(b.Deadline, longAgo) {
			t.Errorf("created %v, deadline %v, want 9999 and 1500 or as near as can be", b.Created, b.Deadline)
		}
		dead := jobs.Body{Created: longAgo, Deadline: farAhead}
		q.now = farAhead
		q.ack(jobs.Ack{Job: got.Jobs[1], Outcome: jobs.Dead, Body: dead})
		letters, err := s.jobs.DeadHeads(t.Context(), jobs.Filter{}, 10)
		if err != nil || len(letters) != 1 {
			t.Fatalf("dead letters %+v, %v", letters, err)
		}
		if l := letters[0]; !isFar(l.Died, farAhead) || !isFar(l.Created, longAgo) || !isFar(l.Deadline, farAhead) {
			t.Errorf("died %v, created %v, deadline %v", l.Died, l.Created, l.Deadline)
		}
	})
}

// Numbers that no database has are asked for in vain.
func TestFarNumbers(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		q.add("a")
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
		ctx := t.Context()
		if list, err := s.jobs.List(ctx, jobs.Filter{After: math.MaxUint64}, 10, q.now); err != nil || len(list) != 0 {
			t.Errorf("jobs after the greatest number: %v, %v", list, err)
		}
		if n, err := s.jobs.Delete(ctx, jobs.Filter{IDs: []uint64{math.MaxUint64}}); err != nil || n != 0 {
			t.Errorf("Remove: %d, %v", n, err)
		}
		if list, err := s.jobs.DeadHeads(ctx, jobs.Filter{After: math.MaxUint64, IDs: []uint64{math.MaxUint64}}, 10); err != nil || len(list) != 0 {
			t.Errorf("dead letters: %v, %v", list, err)
		}
	})
}
