package jobs_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/jobs"
)

// What the tests of github.com/fireworq/fireworq ask of its queues (test/jobqueue/jobqueue.go, jobqueue/jobqueuetest/jobqueue_test.go
// and repository/factory/repository_test.go), told anew. Its categories are the names of jobs.

// push enqueues jobs of one category each, with their places as bodies.
func (q *queue) push(categories ...string) (ids []uint64) {
	q.t.Helper()
	for i, name := range categories {
		ids = append(ids, q.enqueue(jobs.Spec{Lane: lane, Body: jobs.Body{Name: name, Data: fmt.Append(nil, i+1), Created: q.now}}))
	}
	return ids
}

// states returns the jobs in each state.
func (q *queue) states() map[jobs.State][]uint64 {
	q.t.Helper()
	all := make(map[jobs.State][]uint64)
	for _, state := range []jobs.State{jobs.StateReady, jobs.StateWaiting, jobs.StateBlocked, jobs.StateClaimed} {
		if ids := q.find(jobs.Query{State: state}, 2); len(ids) > 0 {
			all[state] = ids
		}
	}
	return all
}

func (q *queue) wantStates(when string, want map[jobs.State][]uint64) {
	q.t.Helper()
	if got := q.states(); !maps.EqualFunc(got, want, slices.Equal) {
		q.t.Errorf("%s: jobs by state %v, want %v", when, got, want)
	}
}

// Jobs without categories are popped in their order, some at a time; those of a category in theirs, and no job twice.
func TestFireworqPop(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		q.want("at the beginning", q.claim(1).Jobs)
		for _, categories := range [][]string{{"", "", "", "", ""}, {"foo", "foo", "foo", "foo", "foo"}, {"foo", "bar", "bar", "foo", "foo"}} {
			ids := q.push(categories...)
			var popped []jobs.Job
			for i, want := range []int{3, 2, 0} {
				got := q.claim(3).Jobs
				if popped = append(popped, got...); len(got) != want {
					t.Fatalf("%q: claim %d has %d jobs, want %d", categories, i+1, len(got), want)
				}
			}
			seen := make(map[string][]uint64)
			for _, job := range popped {
				seen[job.Name] = append(seen[job.Name], job.ID)
			}
			want := make(map[string][]uint64)
			for i, name := range categories {
				want[name] = append(want[name], ids[i])
			}
			if !maps.EqualFunc(seen, want, slices.Equal) {
				t.Errorf("%q: claimed %v, want %v", categories, seen, want)
			}
			q.ack(of(popped, jobs.Done, q.now)...)
		}
	})
}

// A job that is updated for another try comes with one failure more when that is due, and a try leaves all others as they were.
func TestFireworqUpdate(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		ids := q.push("", "", "", "")
		start := q.now
		retry := func(job jobs.Job, after time.Duration) {
			q.ack(jobs.Ack{Job: job, Outcome: jobs.Retry, RunAt: start.Add(after), Error: "no"})
		}
		first := q.claim(3).Jobs
		q.want("three", first, ids[:3]...)
		retry(first[0], 2*time.Second)
		retry(first[1], time.Second)
		q.want("the one that was left", q.claim(10).Jobs, ids[3])
		for _, step := range []struct {
			after    time.Duration
			id       uint64
			attempts int
			again    time.Duration
		}{
			{time.Second, ids[1], 1, 3 * time.Second},
			{2 * time.Second, ids[0], 1, 4 * time.Second},
			{3 * time.Second, ids[1], 2, 5 * time.Second},
			{4 * time.Second, ids[0], 2, 0},
			{5 * time.Second, ids[1], 3, 0},
		} {
			q.now = start.Add(step.after - time.Millisecond)
			q.want(fmt.Sprint("before ", step.after), q.claim(10).Jobs)
			q.now = start.Add(step.after)
			got := q.claim(10).Jobs
			q.want(fmt.Sprint("after ", step.after), got, step.id)
			if got[0].Attempts != step.attempts {
				t.Errorf("after %v job %d has %d failed attempts, want %d", step.after, step.id, got[0].Attempts, step.attempts)
			}
			if step.again > 0 {
				retry(got[0], step.again)
			}
		}
		q.wantStates("at the end", map[jobs.State][]uint64{jobs.StateClaimed: ids})
	})
}

// What is waiting, grabbed and deferred is found page by page, and can be deleted one by one, also what is grabbed: nothing that its
// consumer says afterwards brings it back.
func TestFireworqInspectAndDelete(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		var ids []uint64
		for i := range 10 {
			job := jobs.Spec{Lane: lane, Body: jobs.Body{URL: fmt.Sprintf("https://example.org/job%d", i), Created: q.now}}
			if delay := map[int]time.Duration{2: 500 * time.Second, 5: 600 * time.Second, 8: 500 * time.Second}[i]; delay > 0 {
				job.RunAt = q.now.Add(delay)
			}
			ids = append(ids, q.enqueue(job))
		}
		of := func(places ...int) (list []uint64) {
			for _, i := range places {
				list = append(list, ids[i])
			}
			return list
		}
		grabbed := q.claim(4).Jobs
		q.want("the first four that are due", grabbed, of(0, 1, 3, 4)...)
		want := map[jobs.State][]uint64{jobs.StateClaimed: of(0, 1, 3, 4), jobs.StateReady: of(6, 7, 9), jobs.StateWaiting: of(2, 5, 8)}
		q.wantStates("after a claim", want)
		left := int64(10)
		for _, state := range []jobs.State{jobs.StateReady, jobs.StateClaimed, jobs.StateWaiting} {
			for _, id := range want[state] {
				if body, err := s.jobs.Body(t.Context(), id); err != nil || body.URL != fmt.Sprintf("https://example.org/job%d", slices.Index(ids, id)) {
					t.Errorf("Body(%d) = %+v, %v", id, body, err)
				}
				if n, err := s.jobs.Delete(t.Context(), jobs.Filter{IDs: []uint64{id}}); n != 1 || err != nil {
					t.Errorf("Delete(%d) = %d, %v, want 1", id, n, err)
				}
				if n, err := s.jobs.Delete(t.Context(), jobs.Filter{IDs: []uint64{id}}); n != 0 || err != nil {
					t.Errorf("Delete(%d) again = %d, %v, want 0", id, n, err)
				}
				if _, err := s.jobs.Body(t.Context(), id); !errors.Is(err, jobs.ErrUnknown) {
					t.Errorf("Body(%d) of a deleted job: %v, want ErrUnknown", id, err)
				}
				if left--; s.jobs.Depths()[lane] != left {
					t.Errorf("depth %d, want %d", s.jobs.Depths()[lane], left)
				}
			}
			delete(want, state)
			q.wantStates("after the deletion of what was "+string(state), want)
		}
		for i, outcome := range []jobs.Outcome{jobs.Done, jobs.Retry, jobs.Return, jobs.Dead} {
			q.ack(jobs.Ack{Job: grabbed[i], Outcome: outcome, RunAt: q.now})
		}
		q.now = q.now.Add(time.Hour)
		q.want("after all were deleted", q.claim(10).Jobs)
		if dead, err := s.jobs.Dead(t.Context(), jobs.Filter{}, 10); err != nil || len(dead) != 0 || len(s.jobs.Depths()) != 0 {
			t.Errorf("dead letters %+v, %v, depths %v, want none", dead, err, s.jobs.Depths())
		}
	})
}

// Producers and consumers beside each other: each job is popped by one consumer, and none is left.
func TestFireworqAsync(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		const producers, consumers, each = 3, 4, 40
		var mu sync.Mutex // guards the maps
		pushed, popped := make(map[uint64]bool), make(map[uint64]int)
		var producing, consuming sync.WaitGroup
		produced := make(chan struct{}) // closed when all jobs are there
		for n := range producers {
			producing.Go(func() {
				for i := range each {
					ids, err := s.jobs.Enqueue(t.Context(), []jobs.Spec{{Lane: lane, Body: jobs.Body{Name: fmt.Sprint("category-", (n+i)%5), Created: base}}})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					pushed[ids[0]] = true
					mu.Unlock()
				}
			})
		}
		for range consumers {
			consuming.Go(func() {
				for last := false; ; {
					got, err := s.jobs.Claim(t.Context(), lane, 3, base, time.Hour)
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := s.jobs.Ack(t.Context(), of(got.Jobs, jobs.Done, base), base); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, job := range got.Jobs {
						popped[job.ID]++
					}
					mu.Unlock()
					if len(got.Jobs) > 0 {
						continue
					}
					if last && !got.More {
						return
					}
					select {
					case <-produced:
						last = true
					default:
					}
				}
			})
		}
		producing.Wait()
		close(produced)
		consuming.Wait()
		if len(pushed) != producers*each || len(popped) != len(pushed) || len(s.jobs.Depths()) != 0 {
			t.Errorf("%d jobs were pushed, %d popped, depths %v, want all of %d", len(pushed), len(popped), s.jobs.Depths(), producers*each)
		}
		for id, times := range popped {
			if !pushed[id] || times != 1 {
				t.Errorf("job %d was popped %d times", id, times)
			}
		}
	})
}

// A queue and a route of a category that are put again as they are stay as they are, are changed by another put, and are gone when they
// are deleted. Another queue of the same name is a new one.
func TestFireworqRepository(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		ctx := t.Context()
		load := func() jobs.Settings {
			t.Helper()
			got, err := s.jobs.Load(ctx)
			q.check(err)
			return got
		}
		two := jobs.NewQueue("two")
		two.Concurrency, two.Rate = 1000, 2.5
		q.check(errors.Join(s.jobs.PutQueue(ctx, jobs.NewQueue("one")), s.jobs.PutQueue(ctx, two)))
		route := jobs.JobRoute{Name: "a", Jobs: "category-a", Queue: 2, Weight: 1}
		q.check(s.jobs.PutJobRoute(ctx, route))
		before := fmt.Sprint(load())
		q.check(errors.Join(s.jobs.PutQueue(ctx, jobs.NewQueue("one")), s.jobs.PutQueue(ctx, two), s.jobs.PutJobRoute(ctx, route)))
		if after := fmt.Sprint(load()); after != before {
			t.Errorf("put again: %s, want %s", after, before)
		}
		two.Concurrency, two.Rate = 10, 0
		route.Queue = 3
		q.check(errors.Join(s.jobs.PutQueue(ctx, two), s.jobs.PutJobRoute(ctx, route)))
		got := load()
		if len(got.Queues) != 3 || got.Queues[2].Name != "two" || got.Queues[2].Concurrency != 10 || got.Queues[2].Rate != 0 || got.JobRoutes[0].Queue != 3 {
			t.Errorf("changed: %+v", got)
		}
		hasRoute := func() jobs.Lane {
			t.Helper()
			settings := load()
			to, err := settings.LaneOf("category-a", jobs.Lane{}, true)
			q.check(err)
			return to
		}
		if to := hasRoute(); to.Queue != 3 {
			t.Errorf("the category goes to %v, want queue 3", to)
		}
		q.check(s.jobs.DeleteJobRoute(ctx, "a"))
		if to := hasRoute(); to.Queue != 1 {
			t.Errorf("without its route the category goes to %v, want the default queue", to)
		}
		q.check(s.jobs.DeleteQueue(ctx, "one"))
		if err := s.jobs.DeleteQueue(ctx, "one"); !errors.Is(err, jobs.ErrUnknown) {
			t.Errorf("DeleteQueue again = %v, want ErrUnknown", err)
		}
		if err := s.jobs.PutJobRoute(ctx, route); err != nil {
			t.Errorf("PutJobRoute to a queue that is there = %v", err)
		}
		route.Queue = 2
		if err := s.jobs.PutJobRoute(ctx, route); !errors.Is(err, jobs.ErrUnknown) {
			t.Errorf("PutJobRoute to a deleted queue = %v, want ErrUnknown", err)
		}
		q.check(s.jobs.PutQueue(ctx, jobs.NewQueue("one")))
		if got := load().Queues; len(got) != 3 || !slices.ContainsFunc(got, func(q jobs.Queue) bool { return q.Name == "one" }) {
			t.Errorf("made anew: %+v", got)
		}
	})
}
