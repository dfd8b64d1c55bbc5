package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/store"
)

// described is what the job of an event delivers in these tests.
func described(_ store.Lane, ev *liveness.Event) (store.JobBody, error) {
	return store.JobBody{Message: ev.ID(), Key: ev.Subject, ContentType: "x/y", Data: fmt.Appendf(nil, "event %d", ev.Offset), Created: ev.Time}, nil
}

// A job that is still there when its event is removed becomes a dead letter with all that it was to
// deliver, whether it is new, waits, is behind another one or claimed.
func TestJobsOutliveTheirEvents(t *testing.T) {
	eachDatabase(t, config{Outbox: everything, Keep: 15, Cache: 1}, func(t *testing.T, s *store.Store) {
		t.Helper()
		s.Jobs().Describe(described)
		q := newQueue(t, s)
		add := func(from, to uint64) {
			t.Helper()
			for i := from; i <= to; i++ {
				appendAll(t, s, device(1, "dev-1", i, liveness.DeviceOnline))
			}
		}
		add(1, 3)
		got := q.claim(3).Jobs
		q.settle(
			store.Outcome{Job: got[0], Verdict: store.Retry, RunAt: q.now.Add(time.Hour), Error: "refused"},
			store.Outcome{Job: got[1], Verdict: store.Behind}, store.Outcome{Job: got[2], Verdict: store.Behind},
		)
		if err := s.Exec(t.Context(), "UPDATE jobs SET claim = 77, due = 1 WHERE id = 3"); err != nil { // somebody has it
			t.Fatal(err)
		}
		add(4, 45)
		if err := s.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if oldest, _ := s.Bounds(); oldest != 16 {
			t.Errorf("the oldest event is %d, want 16: twice the bound are kept for the jobs", oldest)
		}
		dead, err := s.Jobs().Dead(t.Context(), store.DeadFilter{}, 100)
		if err != nil || len(dead) != 15 || s.Jobs().Depths()[lane] != 30 {
			t.Fatalf("%d dead letters, %v, and %v jobs, want 15 and 30", len(dead), err, s.Jobs().Depths())
		}
		for i := range dead {
			n := uint64(i + 1)
			ev := device(1, "dev-1", n, liveness.DeviceOnline)
			ev.Offset = n
			want, _ := described(lane, &ev)
			if dead[i].ID != n || !reflect.DeepEqual(dead[i].JobBody, want) {
				t.Errorf("dead letter %d: %+v, want %+v", dead[i].ID, dead[i].JobBody, want)
			}
		}
		if why := dead[0].Error; why != "it could not be delivered for so long that its event is too old to be kept; the last attempt: refused" {
			t.Errorf("the first died of %q", why)
		}
		q.want("the next is not behind any more", q.claim(1).Jobs, 16)
		if n, err := s.Jobs().Replay(t.Context(), store.DeadFilter{IDs: []uint64{2}}); err != nil || n != 1 {
			t.Fatalf("Replay = %d, %v", n, err)
		}
		if b, err := s.Jobs().Body(t.Context(), 46); err != nil || b.Message != "dev-1:2" || b.Key != "dev-1" || string(b.Data) != "event 2" {
			t.Errorf("replayed: %+v, %v", b, err)
		}
	})
}

// An event stays while the dead letter of its job cannot be written.
func TestEventsWaitForDeadLetters(t *testing.T) {
	eachDatabase(t, config{Outbox: everything, Keep: 5, Cache: 1}, func(t *testing.T, s *store.Store) {
		t.Helper()
		wrong := errors.New("no words")
		s.Jobs().Describe(func(store.Lane, *liveness.Event) (store.JobBody, error) { return store.JobBody{}, wrong })
		for i := range uint64(20) {
			appendAll(t, s, device(1, "dev-1", i+1, liveness.DeviceOnline))
		}
		if err := s.Prune(t.Context()); !errors.Is(err, wrong) {
			t.Errorf("Prune = %v, want %v", err, wrong)
		}
		if oldest, _ := s.Bounds(); oldest != 1 || s.Jobs().Depths()[lane] != 20 {
			t.Errorf("the oldest event is %d, and there are %d jobs, want 1 and 20", oldest, s.Jobs().Depths()[lane])
		}
		s.Jobs().Describe(described)
		if err := s.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if oldest, _ := s.Bounds(); oldest != 11 || s.Jobs().Depths()[lane] != 10 {
			t.Errorf("the oldest event is %d, and there are %d jobs, want 11 and 10", oldest, s.Jobs().Depths()[lane])
		}
	})
}

// Replay takes the dead letters that there are, and not those that its own jobs become meanwhile.
func TestReplayEnds(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		const letters, most = 250, 1000 // more than go in one transaction
		deaths := 0
		die := func() {
			for _, job := range q.claim(most).Jobs {
				q.settle(store.Outcome{Job: job, Verdict: store.Dead, Error: "400", Body: store.JobBody{Data: []byte("{}")}})
				deaths++
			}
		}
		for range letters {
			q.add("")
		}
		die()
		s.Jobs().Watch(func([]store.Lane) { // a receiver that refuses at once
			if deaths < most {
				die()
			}
		})
		if n, err := s.Jobs().Replay(t.Context(), store.DeadFilter{}); err != nil || n != letters {
			t.Errorf("Replay = %d, %v, want %d", n, err, letters)
		}
		if deaths != 2*letters {
			t.Errorf("%d jobs died, want %d", deaths, 2*letters)
		}
	})
}

// Remove removes the jobs that there are, and not those that are made meanwhile.
func TestRemoveEnds(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		q.add("a")
		made, making := 0, false
		s.Jobs().Watch(func([]store.Lane) {
			if !making && made < 10 {
				making = true
				q.add("a")
				made++
				making = false
			}
		})
		if n, err := s.Jobs().Remove(t.Context(), store.JobFilter{}); err != nil || n != 1 {
			t.Errorf("Remove = %d, %v, want 1", n, err)
		}
	})
}
