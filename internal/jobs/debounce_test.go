package jobs_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
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

// clocked runs a test on databases whose clock is that of the queue.
func clocked(t *testing.T, on func(*testing.T, config, func(*testing.T, *rig)), test func(t *testing.T, q *queue)) {
	t.Helper()
	var q *queue
	wall := func() time.Time {
		if q == nil {
			return base
		}
		return q.now
	}
	on(t, config{Wall: wall}, func(t *testing.T, s *rig) {
		t.Helper()
		q = newQueue(t, s)
		defer func() { q = nil }()
		test(t, q)
	})
}

// An idempotency key counts for its window.
func TestUniqueWindow(t *testing.T) {
	clocked(t, eachDatabase, func(t *testing.T, q *queue) {
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
	clocked(t, eachDatabase, func(t *testing.T, q *queue) {
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
	clocked(t, anyDatabase, func(t *testing.T, q *queue) {
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

// Requests in one call come to the same as one after the other.
func TestDebounceTogether(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		request := func(key, content string, debounce bool) jobs.Spec {
			spec := jobs.Spec{Lane: lane, Unique: key, Body: jobs.Body{Data: []byte(content), Name: content, Key: content, Created: q.now}}
			if debounce {
				spec.Debounce, spec.Window, spec.RunAt = true, time.Second, q.now.Add(time.Second)
			}
			return spec
		}
		for _, tt := range []struct {
			name      string
			debounced []bool
			numbers   int      // of different jobs
			now       []string // what runs at once
			later     []string
		}{
			{"debounced twice", []bool{true, true}, 1, nil, []string{"2"}},
			{"debounced after one that is not", []bool{false, true}, 2, []string{"1"}, []string{"2"}},
			{"debounced, and then not", []bool{true, false}, 1, nil, []string{"1"}},
			{"all kinds", []bool{false, true, true, false}, 2, []string{"1"}, []string{"3"}},
		} {
			for _, together := range []bool{true, false} {
				key := fmt.Sprint(tt.name, together)
				var specs []jobs.Spec
				for i, debounce := range tt.debounced {
					specs = append(specs, request(key, strconv.Itoa(i+1), debounce))
				}
				numbers := make(map[uint64]bool)
				for some := range slices.Chunk(specs, map[bool]int{true: len(specs), false: 1}[together]) {
					ids, err := q.jobs.Enqueue(t.Context(), some)
					q.check(err)
					for _, id := range ids {
						numbers[id] = true
					}
				}
				claimed := func() (contents []string) {
					for range 2 { // the first one looks at the jobs before
						for _, job := range q.claim(10).Jobs {
							contents = append(contents, string(job.Body.Data))
							if job.Name == "" || job.Body.Key != job.Name {
								t.Errorf("%s: the job has the name %q and the key %q", key, job.Name, job.Body.Key)
							}
							q.ack(jobs.Ack{Job: job})
						}
					}
					return contents
				}
				now := claimed()
				q.now = q.now.Add(time.Second)
				if later := claimed(); len(numbers) != tt.numbers || !slices.Equal(now, tt.now) || !slices.Equal(later, tt.later) {
					t.Errorf("%s, in one call %v: %d jobs, %v at once, then %v, want %d, %v and %v", tt.name, together, len(numbers), now, later, tt.numbers, tt.now, tt.later)
				}
			}
		}
	})
}
