package store_test

import (
	"math"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/store"
)

// Instants that no number of nanoseconds since 1970 stands for, and the zero time, which stands for none.
var (
	longAgo  = time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)
	farAhead = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// isFar says whether an instant is kept as the last one that can be, or the first.
func isFar(t, like time.Time) bool {
	if like.After(time.Now()) {
		return t.Year() == 2262
	}
	return t.Year() == 1677
}

// What is due in a year that cannot be kept is due as late as can be, or at once; never at another time.
func TestFarJobs(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		views := func() map[uint64]store.JobView {
			t.Helper()
			list, err := s.Jobs().List(t.Context(), store.JobFilter{}, 100, q.now)
			if err != nil {
				t.Fatal(err)
			}
			m := make(map[uint64]store.JobView)
			for _, v := range list {
				m[v.ID] = v
			}
			return m
		}
		early := q.enqueue(store.NewJob{Lane: lane, RunAt: longAgo, JobBody: store.JobBody{Created: longAgo, Deadline: farAhead}})
		late := q.enqueue(store.NewJob{Lane: lane, RunAt: farAhead, JobBody: store.JobBody{Created: farAhead, Deadline: longAgo}})
		got := q.claim(10)
		q.want("of 1500 and 9999", got.Jobs, early)
		if b := got.Jobs[0].Body; !isFar(b.Created, longAgo) || !isFar(b.Deadline, farAhead) {
			t.Errorf("created %v, deadline %v, want 1500 and 9999 or as near as can be", b.Created, b.Deadline)
		}
		if v := views()[late]; v.State != store.JobWaiting || !isFar(v.RunAt, farAhead) {
			t.Errorf("to run in 9999: %s until %v", v.State, v.RunAt)
		}
		if err := s.Jobs().Extend(t.Context(), got.Jobs, farAhead); err != nil {
			t.Fatal(err)
		}
		if v := views()[early]; v.State != store.JobClaimed || !isFar(v.RunAt, farAhead) {
			t.Errorf("with a lease until 9999: %s until %v", v.State, v.RunAt)
		}
		q.settle(store.Outcome{Job: got.Jobs[0], Verdict: store.Retry, RunAt: farAhead, Error: "no"})
		if v := views()[early]; v.State != store.JobWaiting || !isFar(v.RunAt, farAhead) {
			t.Errorf("to be tried again in 9999: %s until %v", v.State, v.RunAt)
		}
		if n, err := s.Jobs().Hasten(t.Context(), []store.Lane{lane}); n != 1 || err != nil {
			t.Errorf("Hasten = %d, %v", n, err)
		}
		for _, at := range []time.Time{longAgo, {}} {
			got = q.claim(10)
			q.want("hastened, or to be tried again long ago", got.Jobs, early)
			q.settle(store.Outcome{Job: got.Jobs[0], Verdict: store.Retry, RunAt: at, Error: "no"})
			if v := views()[early]; v.State != store.JobReady || v.RunAt.Year() == 1754 {
				t.Errorf("to be tried again at %v: %s until %v", at, v.State, v.RunAt)
			}
		}
		if _, err := s.Jobs().Wake(t.Context(), []uint64{late}); err != nil {
			t.Fatal(err)
		}
		got = q.claim(10)
		q.want("woken", got.Jobs, early, late)
		if b := got.Jobs[1].Body; !isFar(b.Created, farAhead) || !isFar(b.Deadline, longAgo) {
			t.Errorf("created %v, deadline %v, want 9999 and 1500 or as near as can be", b.Created, b.Deadline)
		}
		dead := store.JobBody{Created: longAgo, Deadline: farAhead}
		q.now = farAhead
		q.settle(store.Outcome{Job: got.Jobs[1], Verdict: store.Dead, Body: dead})
		letters, err := s.Jobs().DeadHeads(t.Context(), store.DeadFilter{}, 10)
		if err != nil || len(letters) != 1 {
			t.Fatalf("dead letters %+v, %v", letters, err)
		}
		if l := letters[0]; !isFar(l.Died, farAhead) || !isFar(l.Created, longAgo) || !isFar(l.Deadline, farAhead) {
			t.Errorf("died %v, created %v, deadline %v", l.Died, l.Created, l.Deadline)
		}
	})
}

// Events, rows of devices and runs keep instants as near to what they were as can be.
func TestFarEvents(t *testing.T) {
	eachDatabase(t, config{Cache: 1}, func(t *testing.T, s *store.Store) {
		t.Helper()
		for i, at := range []time.Time{longAgo, farAhead, {}} {
			ev := device(uint32(i+1), name(i), 1, liveness.DeviceOnline)
			ev.Time, ev.LastSeen, ev.Deadline, ev.Record.Since = at, at, at, at
			appendAll(t, s, ev)
		}
		appendAll(t, s, device(9, "last", 1, liveness.DeviceOnline)) // so that the others are not in memory
		events := readAll(t, s)
		for i, at := range []time.Time{longAgo, farAhead} {
			if ev := events[i]; !isFar(ev.Time, at) || !isFar(ev.LastSeen, at) || !isFar(ev.Deadline, at) {
				t.Errorf("of %v: at %v, last seen %v, deadline %v", at, ev.Time, ev.LastSeen, ev.Deadline)
			}
		}
		if ev := events[2]; !ev.Time.IsZero() || !ev.LastSeen.IsZero() || !ev.Deadline.IsZero() {
			t.Errorf("of no time: at %v, last seen %v, deadline %v", ev.Time, ev.LastSeen, ev.Deadline)
		}
		var since int64
		if err := s.Scan(t.Context(), "SELECT since FROM device_states WHERE num = 2", &since); err != nil || since != math.MaxInt64 {
			t.Errorf("since %d, %v, want %d", since, err, math.MaxInt64)
		}
	})
}

// Numbers that no database has are asked for in vain.
func TestFarNumbers(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		q.add("a")
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
		ctx := t.Context()
		if list, err := s.Jobs().List(ctx, store.JobFilter{After: math.MaxUint64}, 10, q.now); err != nil || len(list) != 0 {
			t.Errorf("jobs after the greatest number: %v, %v", list, err)
		}
		if n, err := s.Jobs().Remove(ctx, store.JobFilter{IDs: []uint64{math.MaxUint64}}); err != nil || n != 0 {
			t.Errorf("Remove: %d, %v", n, err)
		}
		if list, err := s.Jobs().DeadHeads(ctx, store.DeadFilter{After: math.MaxUint64, IDs: []uint64{math.MaxUint64}}, 10); err != nil || len(list) != 0 {
			t.Errorf("dead letters: %v, %v", list, err)
		}
		if list, err := s.EventsAt(ctx, []uint64{0, math.MaxUint64}); err != nil || len(list) != 0 {
			t.Errorf("events: %v, %v", list, err)
		}
		if list, err := s.DeviceEvents(ctx, "dev-1", math.MaxUint64, 10); err != nil || len(list) != 0 {
			t.Errorf("events of a device: %v, %v", list, err)
		}
		if list, err := s.Read(ctx, nil, math.MaxUint64, math.MaxInt); err == nil || len(list) != 0 {
			t.Errorf("Read: %v, %v", list, err)
		}
		if list, err := s.Read(ctx, nil, 0, math.MaxInt); err != nil || len(list) != 1 {
			t.Errorf("Read: %v, %v", list, err)
		}
		if list, err := s.DeviceEvents(ctx, "dev-1", 0, math.MaxInt); err != nil || len(list) != 1 {
			t.Errorf("events of a device: %v, %v", list, err)
		}
	})
}
