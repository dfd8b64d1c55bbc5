package jobs_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/jobs"
)

// request enqueues a job with an idempotency key, as delivery does.
func (q *queue) request(content string, window time.Duration, debounce bool) uint64 {
	q.t.Helper()
	spec := jobs.Spec{Lane: lane, Unique: "reindex", Window: window, Debounce: debounce, Body: jobs.Body{Data: []byte(content), Created: q.now}}
	if debounce {
		spec.RunAt = q.now.Add(window)
		spec.Created = spec.RunAt
	}
	return q.enqueue(spec)
}

// clocked runs a test on each kind of database, whose clock is that of the queue.
func clocked(t *testing.T, test func(t *testing.T, q *queue)) {
	t.Helper()
	var q *queue
	wall := func() time.Time {
		if q == nil {
			return base
		}
		return q.now
	}
	eachDatabase(t, config{Wall: wall}, func(t *testing.T, s *rig) {
		t.Helper()
		q = newQueue(t, s)
		defer func() { q = nil }()
		test(t, q)
	})
}

// An idempotency key counts for its window.
func TestUniqueWindow(t *testing.T) {
	clocked(t, func(t *testing.T, q *queue) {
		t.Helper()
		first := q.request("1", 5*time.Second, false)
		q.now = q.now.Add(5*time.Second - 1)
		if id := q.request("2", 5*time.Second, false); id != first {
			t.Errorf("within the window there is a job %d, want %d", id, first)
		}
		q.now = q.now.Add(1)
		second := q.request("3", 5*time.Second, false)
		if second == first {
			t.Error("after the window no second job was made")
		}
		if id := q.request("4", 0, false); id != second {
			t.Errorf("within a day there is a job %d, want %d", id, second)
		}
		if n := len(q.claim(10).Jobs); n != 2 {
			t.Errorf("there are %d jobs, want 2", n)
		}
	})
}

// A debounced job has the content of the last request, and runs a window after it.
func TestDebounce(t *testing.T) {
	clocked(t, func(t *testing.T, q *queue) {
		t.Helper()
		const window = 10 * time.Second
		first := q.request("1", window, true)
		q.now = q.now.Add(9 * time.Second)
		if id := q.request("2", window, true); id != first {
			t.Errorf("the second request made a job %d, want %d", id, first)
		}
		q.now = q.now.Add(9 * time.Second)
		q.want("within the window of the second", q.claim(10).Jobs)
		q.now = q.now.Add(time.Second)
		got := q.claim(10).Jobs
		q.want("a window after the second", got, first)
		if content := string(got[0].Body.Data); content != "2" {
			t.Errorf("the job has the content %q, want that of the last request", content)
		}
		second := q.request("3", window, true)
		if second == first {
			t.Error("a request has renewed a job that is being delivered")
		}
		q.ack(jobs.Ack{Job: got[0]})
		q.now = q.now.Add(window)
		q.want("the request after that", q.claim(10).Jobs, second)
	})
}

// Requests that never end do not put a job off for ever.
func TestDebounceEnds(t *testing.T) {
	clocked(t, func(t *testing.T, q *queue) {
		t.Helper()
		const window = 10 * time.Second
		first, begin := q.request("1", window, true), q.now
		for len(q.claim(1).Jobs) == 0 {
			if q.now.Sub(begin) > 10*window {
				t.Fatalf("job %d waits for %v", first, q.now.Sub(begin))
			}
			q.now = q.now.Add(time.Second)
			if len(q.claim(1).Jobs) > 0 {
				break
			}
			q.request("again", window, true)
		}
		if waited := q.now.Sub(begin); waited != 10*window {
			t.Errorf("the job ran %v after the first request, want %v", waited, 10*window)
		}
	})
}

// Several requests in one call make one job, with the content of the last.
func TestDebounceTogether(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		var list []jobs.Spec
		for _, content := range []string{"1", "2"} {
			list = append(list, jobs.Spec{
				Lane: lane, Unique: "u", Window: time.Second, Debounce: true, RunAt: q.now.Add(time.Second), Body: jobs.Body{Data: []byte(content), Created: q.now},
			})
		}
		ids, err := q.jobs.Enqueue(t.Context(), list)
		if err != nil || ids[0] != ids[1] {
			t.Fatal(ids, err)
		}
		q.now = q.now.Add(time.Second)
		if got := q.claim(10).Jobs; len(got) != 1 || string(got[0].Body.Data) != "2" {
			t.Errorf("claimed %+v, want one job with the content 2", got)
		}
	})
}
