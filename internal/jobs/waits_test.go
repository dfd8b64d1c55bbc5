package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// setClock is a wall clock that can be set.
type setClock struct{ by atomic.Int64 }

func (c *setClock) now() time.Time       { return time.Now().Add(time.Duration(c.by.Load())) }
func (c *setClock) set(by time.Duration) { c.by.Add(int64(by)) }

// withClock runs a test with a wall clock that it can set.
func withClock(t *testing.T, on func(*testing.T, config, func(*testing.T, *rig)), test func(t *testing.T, s *rig, q *queue, clock *setClock)) {
	t.Helper()
	clock := &setClock{}
	on(t, config{Wall: clock.now}, func(t *testing.T, s *rig) {
		t.Helper()
		clock.by.Store(0)
		q := newQueue(t, s)
		test(t, s, q, clock)
	})
}

// due checks that jobs can be claimed a time from now on by the wall clock, and not a minute earlier. They are returned then.
func (q *queue) due(what string, clock *setClock, in time.Duration, want ...uint64) {
	q.t.Helper()
	q.now = clock.now().Add(in - time.Minute)
	q.want(what+", a minute before", q.claim(10).Jobs)
	q.now = clock.now().Add(in)
	got := q.claim(10).Jobs
	q.want(what, got, want...)
	var acks []jobs.Ack
	for _, job := range got {
		acks = append(acks, jobs.Ack{Job: job})
	}
	q.ack(acks...)
}

// Jobs that wait do not wait longer because the wall clock is set back meanwhile. Those that are made after it wait by the new clock.
func TestClockSetBack(t *testing.T) {
	withClock(t, eachDatabase, func(t *testing.T, s *rig, q *queue, clock *setClock) {
		t.Helper()
		q.now = clock.now()
		q.add("b")
		q.ack(jobs.Ack{Job: q.claim(1).Jobs[0], Outcome: jobs.Retry, RunAt: q.now.Add(10 * time.Minute), Error: "no"})
		behind := q.add("b")
		q.want("behind one that waits", q.claim(10).Jobs)
		q.enqueue(jobs.Spec{Lane: lane, RunAt: q.now.Add(10 * time.Minute)})
		clock.set(-time.Hour)
		q.enqueue(jobs.Spec{Lane: lane, RunAt: clock.now().Add(20 * time.Minute)})
		q.due("an attempt after the first, and the first one", clock, 10*time.Minute, 1, 3)
		follows := q.claim(10).Jobs
		q.want("behind it", follows, behind)
		q.ack(jobs.Ack{Job: follows[0]})
		q.due("made after the clock was set back", clock, 20*time.Minute, 4)
		for range 3 { // less than is noticed, but together more
			q.now = clock.now()
			q.enqueue(jobs.Spec{Lane: lane, RunAt: q.now.Add(time.Hour)})
			clock.set(-400 * time.Millisecond)
		}
		q.claim(1)
		views, err := s.jobs.List(t.Context(), jobs.Filter{After: 4}, 10, clock.now())
		if err != nil || len(views) != 3 {
			t.Fatalf("%d jobs, %v", len(views), err)
		}
		if wait := views[0].RunAt.Sub(clock.now()); wait > time.Hour {
			t.Errorf("after small steps the first waits for %v", wait)
		}
	})
}

// A clock that is ahead for a moment lets no job run too early that was there before.
func TestClockAheadForAMoment(t *testing.T) {
	const month = 30 * 24 * time.Hour
	withClock(t, anyDatabase, func(t *testing.T, s *rig, q *queue, clock *setClock) {
		t.Helper()
		before := q.enqueue(jobs.Spec{Lane: lane, RunAt: clock.now().Add(2 * month)})
		clock.set(month)
		meanwhile := q.enqueue(jobs.Spec{Lane: lane, RunAt: clock.now().Add(time.Hour)})
		clock.set(-month)
		q.due("made while it was ahead", clock, time.Hour, meanwhile)
		q.due("made before", clock, 2*month, before)

		of := q.enqueue(jobs.Spec{Lane: lane, RunAt: clock.now().Add(2 * time.Hour)})
		if err := errors.Join(s.Close(), s.start(t.Context())); err != nil {
			t.Fatal(err)
		}
		clock.set(-time.Hour)
		q.due("of a process before", clock, 3*time.Hour, of)
	})
}

// Many jobs are moved in transactions of a bounded size, each once, also if that is interrupted.
func TestClockSetBackForMany(t *testing.T) {
	withClock(t, eachDatabase, func(t *testing.T, s *rig, _ *queue, clock *setClock) {
		t.Helper()
		const n = 5100 // more than one transaction moves
		at := clock.now().Add(2 * time.Hour)
		specs := make([]jobs.Spec, n)
		for i := range specs {
			specs[i] = jobs.Spec{Lane: lane, RunAt: at, Body: jobs.Body{Data: fmt.Append(nil, i)}}
		}
		if _, err := s.jobs.Enqueue(t.Context(), specs); err != nil {
			t.Fatal(err)
		}
		clock.set(-time.Hour)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = s.jobs.Claim(canceled, lane, 1, clock.now(), time.Minute) // a server refuses it, a file does not
		if _, err := s.jobs.Claim(t.Context(), lane, 1, clock.now(), time.Minute); err != nil {
			t.Fatal(err)
		}
		views, err := s.jobs.List(t.Context(), jobs.Filter{}, n+1, clock.now())
		if err != nil || len(views) != n {
			t.Fatalf("%d jobs, %v", len(views), err)
		}
		for _, v := range views {
			if off := v.RunAt.Sub(at.Add(-time.Hour)); off.Abs() > time.Second {
				t.Fatalf("job %d runs at %v, %v off", v.ID, v.RunAt, off)
			}
		}
	})
}

// Retries wait no longer because the next process has a clock that is behind. A job that is to run at a time runs then, by any clock.
func TestClockBehindAfterTakeover(t *testing.T) {
	withClock(t, eachDatabase, func(t *testing.T, s *rig, q *queue, clock *setClock) {
		t.Helper()
		registry, err := liveness.New(s.Store, liveness.Config{})
		if err != nil {
			t.Fatal(err)
		}
		clock.set(time.Hour)
		q.now = clock.now()
		q.add("b")
		q.ack(jobs.Ack{Job: q.claim(1).Jobs[0], Outcome: jobs.Retry, RunAt: q.now.Add(10 * time.Minute), Error: "no"})
		behind := q.add("b")
		at := q.enqueue(jobs.Spec{Lane: lane, RunAt: q.now.Add(10 * time.Minute)})
		if err := s.Checkpoint(t.Context(), registry); err != nil {
			t.Fatal(err)
		}
		clock.set(-time.Hour)
		if err := errors.Join(s.Close(), s.start(t.Context())); err != nil {
			t.Fatal(err)
		}
		q.due("an attempt after the first", clock, 10*time.Minute, 1)
		follows := q.claim(10).Jobs
		q.want("behind it", follows, behind)
		q.ack(jobs.Ack{Job: follows[0]})
		q.due("the first attempt", clock, 70*time.Minute, at)
	})
}
