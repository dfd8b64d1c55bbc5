package jobs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
)

// ranked returns n jobs of a priority.
func ranked(name string, p jobs.Priority, n int) []jobs.Spec {
	list := make([]jobs.Spec, n)
	for i := range list {
		list[i] = jobs.Spec{Lane: lane, Body: jobs.Body{Name: name, Priority: p, Created: base}}
	}
	return list
}

// priorities returns how many jobs have each priority.
func priorities(list []jobs.Job) map[jobs.Priority]int {
	n := make(map[jobs.Priority]int)
	for i := range list {
		n[list[i].Priority]++
	}
	return n
}

// Jobs of a higher priority are claimed first, whatever came before them and whatever their names are.
func TestPriorities(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		q.enqueueAll(ranked("", jobs.PriorityLow, 3)...)
		q.enqueueAll(ranked("a", jobs.PriorityLow, 3)...)
		q.enqueueAll(ranked("", jobs.PriorityNormal, 10)...)
		q.enqueueAll(ranked("a", jobs.PriorityNormal, 10)...)
		q.enqueueAll(ranked("", jobs.PriorityHigh, 4)...)
		q.enqueueAll(ranked("a", jobs.PriorityHigh, 4)...)
		var order []jobs.Priority
		for more := true; more; {
			got := q.claim(2)
			for p := jobs.PriorityHigh; p >= jobs.PriorityLow; p-- {
				for range priorities(got.Jobs)[p] {
					order = append(order, p)
				}
			}
			more = got.More
		}
		if len(order) != 34 || !slices.IsSortedFunc(order, func(a, b jobs.Priority) int { return int(b) - int(a) }) {
			t.Errorf("%d jobs were claimed, want all 34; their priorities were %v, want high, normal, low", len(order), order)
		}
	})
}

// A priority is not lost: not in lists, by a restart, when the job is moved, nor by a dead letter that is
// replayed. The order of a key counts more.
func TestPriorityKept(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		q.enqueueAll(ranked("", jobs.PriorityNormal, 5)...)
		high := jobs.Spec{Lane: lane, Body: jobs.Body{Name: "x", Key: "k", Priority: jobs.PriorityHigh, Created: base}}
		low := high
		low.Priority = jobs.PriorityLow
		q.enqueueAll(low, high) // 6, 7
		if v := q.get(7); v.Priority != jobs.PriorityHigh {
			t.Errorf("the job is shown with priority %d, want high", v.Priority)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		var last jobs.Job
		for tries := 0; last.ID != 7 && tries < 20; tries++ {
			for _, job := range q.claim(3).Jobs {
				if job.ID == 7 {
					last = job
					continue
				}
				if last.ID == 7 && job.ID == 6 {
					t.Error("job 7 was claimed before 6, which has its key")
				}
				q.ack(jobs.Ack{Job: job})
			}
		}
		q.ack(jobs.Ack{Job: last, Outcome: jobs.Dead, Body: jobs.Body{Priority: last.Priority, Name: "x"}})
		if n, err := q.jobs.Replay(t.Context(), jobs.Filter{}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if err := q.jobs.PutQueue(t.Context(), jobs.NewQueue("slow")); err != nil {
			t.Fatal(err)
		}
		if n, err := q.jobs.Move(t.Context(), "*", 2); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		to := jobs.Lane{Queue: 2, Endpoint: lane.Endpoint}
		if got, err := q.jobs.Claim(t.Context(), to, 1, q.now, time.Hour); err != nil || len(got.Jobs) != 1 || got.Jobs[0].Priority != jobs.PriorityHigh {
			t.Errorf("Claim = %+v, %v, want the replayed job with its priority", got.Jobs, err)
		}
	})
}
