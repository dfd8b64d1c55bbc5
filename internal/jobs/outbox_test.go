package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// described is what the job of an event delivers in these tests.
func described(_ context.Context, list []jobs.Job) ([]jobs.Body, error) {
	bodies := make([]jobs.Body, len(list))
	for i, job := range list {
		bodies[i] = jobs.Body{Message: fmt.Sprint("dev-1:", job.Event), Key: "dev-1", ContentType: "x/y", Data: fmt.Appendf(nil, "event %d", job.Event), Created: base}
	}
	return bodies, nil
}

// A job that is still there when its event is removed becomes a dead letter with all that it was to
// deliver, whether it is new, waits, is behind another one or claimed.
func TestJobsOutliveTheirEvents(t *testing.T) {
	eachDatabase(t, config{Outbox: everything, Keep: 15, Cache: 1}, func(t *testing.T, s *rig) {
		t.Helper()
		s.jobs.Describe(described)
		q := newQueue(t, s)
		add := func(from, to uint64) {
			t.Helper()
			for i := from; i <= to; i++ {
				appendAll(t, s, device(1, "dev-1", i, liveness.DeviceOnline))
			}
		}
		add(1, 3)
		got := q.claim(3).Jobs
		q.ack(
			jobs.Ack{Job: got[0], Outcome: jobs.Retry, RunAt: q.now.Add(time.Hour), Error: "refused"},
			jobs.Ack{Job: got[1], Outcome: jobs.Block}, jobs.Ack{Job: got[2], Outcome: jobs.Block},
		)
		if err := s.Exec(t.Context(), "UPDATE jobs SET claim = 77, due = 1 WHERE id = 3"); err != nil { // somebody has it
			t.Fatal(err)
		}
		add(4, 45)
		if needed, err := s.jobs.Needed(t.Context()); needed != 1 || err != nil {
			t.Errorf("Needed = %d, %v, want 1", needed, err)
		}
		if needed, err := s.jobs.Release(t.Context(), 16); needed != 16 || err != nil {
			t.Errorf("Release = %d, %v, want 16", needed, err)
		}
		dead, err := s.jobs.Dead(t.Context(), jobs.Filter{}, 100)
		if err != nil || len(dead) != 15 || s.jobs.Depths()[lane] != 30 {
			t.Fatalf("%d dead letters, %v, and %v jobs, want 15 and 30", len(dead), err, s.jobs.Depths())
		}
		for i := range dead {
			n := uint64(i + 1)
			want, _ := described(t.Context(), []jobs.Job{{Event: n}})
			if dead[i].ID != n || !reflect.DeepEqual(dead[i].Body, want[0]) {
				t.Errorf("dead letter %d: %+v, want %+v", dead[i].ID, dead[i].Body, want[0])
			}
		}
		if why := dead[0].Error; why != "it could not be delivered for so long that its event is too old to be kept; the last attempt: refused" {
			t.Errorf("the first died of %q", why)
		}
		q.want("the next is not behind any more", q.claim(1).Jobs, 16)
		if n, err := s.jobs.Replay(t.Context(), jobs.Filter{IDs: []uint64{2}}); err != nil || n != 1 {
			t.Fatalf("Replay = %d, %v", n, err)
		}
		if b, err := s.jobs.Body(t.Context(), 46); err != nil || b.Message != "dev-1:2" || b.Key != "dev-1" || string(b.Data) != "event 2" {
			t.Errorf("replayed: %+v, %v", b, err)
		}
	})
}

// A job, and so the need of its event, stays while its dead letter cannot be written.
func TestEventsWaitForDeadLetters(t *testing.T) {
	anyDatabase(t, config{Outbox: everything, Keep: 5, Cache: 1}, func(t *testing.T, s *rig) {
		t.Helper()
		wrong := errors.New("no words")
		s.jobs.Describe(func(context.Context, []jobs.Job) ([]jobs.Body, error) { return nil, wrong })
		for i := range uint64(20) {
			appendAll(t, s, device(1, "dev-1", i+1, liveness.DeviceOnline))
		}
		if _, err := s.jobs.Release(t.Context(), 11); !errors.Is(err, wrong) || s.jobs.Depths()[lane] != 20 {
			t.Errorf("Release = %v, want %v; %d jobs, want 20", err, wrong, s.jobs.Depths()[lane])
		}
		s.jobs.Describe(described)
		if needed, err := s.jobs.Release(t.Context(), 11); needed != 11 || err != nil || s.jobs.Depths()[lane] != 10 {
			t.Errorf("Release = %d, %v, want 11; %d jobs, want 10", needed, err, s.jobs.Depths()[lane])
		}
	})
}

// Replay takes the dead letters that there are, and not those that its own jobs become meanwhile.
func TestReplayEnds(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		const letters, most = 250, 1000 // more than go in one transaction
		deaths := 0
		die := func() {
			var acks []jobs.Ack
			for _, job := range q.claim(most).Jobs {
				acks = append(acks, jobs.Ack{Job: job, Outcome: jobs.Dead, Error: "400", Body: jobs.Body{Data: []byte("{}")}})
			}
			deaths += len(acks)
			q.ack(acks...)
		}
		q.enqueueAll(named("", letters)...)
		die()
		s.jobs.Watch(func([]jobs.Lane) { // a receiver that refuses at once
			if deaths < most {
				die()
			}
		})
		if n, err := s.jobs.Replay(t.Context(), jobs.Filter{}); err != nil || n != letters {
			t.Errorf("Replay = %d, %v, want %d", n, err, letters)
		}
		if deaths != 2*letters {
			t.Errorf("%d jobs died, want %d", deaths, 2*letters)
		}
	})
}

// Remove removes the jobs that there are, and not those that are made meanwhile.
func TestDeleteEnds(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		q.add("a")
		made, making := 0, false
		s.jobs.Watch(func([]jobs.Lane) {
			if !making && made < 10 {
				making = true
				q.add("a")
				made++
				making = false
			}
		})
		if n, err := s.jobs.Delete(t.Context(), jobs.Filter{}); err != nil || n != 1 {
			t.Errorf("Delete = %d, %v, want 1", n, err)
		}
	})
}

// The depths are right however a count of all jobs, and the news that a transaction was committed,
// follow each other.
func TestInsertIsCountedOnce(t *testing.T) {
	anyDatabase(t, config{Outbox: everything}, func(t *testing.T, s *rig) {
		t.Helper()
		events := []liveness.Event{device(1, "dev-1", 1, liveness.DeviceOnline), device(2, "dev-2", 1, liveness.DeviceOnline)}
		insert := func() (committed func()) {
			t.Helper()
			err := s.db.Write(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) (err error) {
				committed, err = s.jobs.Insert(ctx, tx, 1, events)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return committed
		}
		count := func() {
			t.Helper()
			s.jobs.Doubt()
			if _, err := s.jobs.Sweep(t.Context(), jobs.Retention{Dead: 1, DeadAge: time.Hour, KeyAge: time.Hour}, base); err != nil {
				t.Fatal(err)
			}
		}
		want := func(when string, n int64) {
			t.Helper()
			if got := s.jobs.Depths()[lane]; got != n {
				t.Errorf("%s: %d jobs, want %d", when, got, n)
			}
		}
		var woken []jobs.Lane
		s.jobs.Watch(func(lanes []jobs.Lane) { woken = append(woken, lanes...) })
		committed := insert()
		want("before it is known to be committed", 0)
		count()
		want("counted before that", 2)
		committed()
		want("and known after that", 2)
		insert()()
		want("known at once", 4)
		count()
		want("counted after that", 4)
		if !slices.Equal(woken, []jobs.Lane{lane, lane}) {
			t.Errorf("woken %v", woken)
		}
	})
}
