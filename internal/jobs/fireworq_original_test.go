package jobs_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
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
