package jobs_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// find returns the numbers of the jobs that a query selects, page by page.
func (q *queue) find(query jobs.Query, limit int) (ids []uint64) {
	q.t.Helper()
	for {
		views, next, err := q.jobs.Find(q.t.Context(), query, limit, q.now)
		q.check(err)
		if len(views) > limit {
			q.t.Fatalf("a page has %d jobs, want %d at most", len(views), limit)
		}
		for _, v := range views {
			ids = append(ids, v.ID)
		}
		if next == 0 {
			return ids
		}
		if next <= query.After {
			q.t.Fatalf("next = %d after %d", next, query.After)
		}
		query.After = next
	}
}

func TestFind(t *testing.T) {
	eachDatabase(t, config{Outbox: everything}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		slow := jobs.Lane{Queue: 7, Endpoint: 9}
		appendAll(t, s, device(1, "pump", 1, liveness.DeviceOnline))
		const event = 1
		failed := q.enqueue(jobs.Spec{Lane: slow, Body: jobs.Body{Name: "report.pdf", Key: "a", Created: base}})
		behind := q.enqueue(jobs.Spec{Lane: slow, Body: jobs.Body{Name: "report.csv", Key: "a"}})
		got, err := s.jobs.Claim(t.Context(), slow, 10, q.now, time.Minute)
		q.check(err)
		q.want("both", got.Jobs, failed, behind)
		q.ack(jobs.Ack{Job: got.Jobs[0], Outcome: jobs.Retry, RunAt: q.now.Add(time.Hour)}, jobs.Ack{Job: got.Jobs[1], Outcome: jobs.Block})
		mine := q.enqueue(jobs.Spec{Lane: jobs.Lane{Queue: 7}, Body: jobs.Body{Name: "mail", Key: "a", URL: "https://example.org"}})
		if got, err := s.jobs.Claim(t.Context(), jobs.Lane{Queue: 7}, 10, q.now, time.Minute); err != nil || len(got.Jobs) != 1 {
			t.Fatalf("Claim = %+v, %v", got, err)
		}
		later := q.enqueue(jobs.Spec{Lane: slow, RunAt: q.now.Add(time.Hour)})
		fresh := q.enqueue(jobs.Spec{Lane: slow, Body: jobs.Body{Name: "report.txt", Key: "b"}})
		for _, c := range []struct {
			query jobs.Query
			want  []uint64
		}{
			{jobs.Query{}, []uint64{event, failed, behind, mine, later, fresh}},
			{jobs.Query{State: jobs.StateReady}, []uint64{event, fresh}},
			{jobs.Query{State: jobs.StateWaiting}, []uint64{failed, later}},
			{jobs.Query{State: jobs.StateBlocked}, []uint64{behind}},
			{jobs.Query{State: jobs.StateClaimed}, []uint64{mine}},
			{jobs.Query{Name: "report.*"}, []uint64{failed, behind, fresh}},
			{jobs.Query{Name: "*"}, []uint64{failed, behind, mine, later, fresh}},
			{jobs.Query{Name: "none"}, nil},
			{jobs.Query{Key: "a"}, []uint64{failed, behind, mine}},
			{jobs.Query{Key: "pump"}, []uint64{event}},
			{jobs.Query{Key: "a", Name: "report.*", State: jobs.StateBlocked}, []uint64{behind}},
			{jobs.Query{Filter: jobs.Filter{Lanes: []jobs.Lane{slow}}, Key: "a"}, []uint64{failed, behind}},
			{jobs.Query{Filter: jobs.Filter{Lanes: []jobs.Lane{slow}, After: failed}, State: jobs.StateWaiting}, []uint64{later}},
			{jobs.Query{Filter: jobs.Filter{Lanes: []jobs.Lane{}}}, nil},
			{jobs.Query{Filter: jobs.Filter{After: math.MaxUint64}, Name: "*"}, nil},
		} {
			for _, limit := range []int{1, 2, 100} {
				if ids := q.find(c.query, limit); !slices.Equal(ids, c.want) {
					t.Errorf("Find(%+v) in pages of %d = %v, want %v", c.query, limit, ids, c.want)
				}
			}
		}
		views, _, err := s.jobs.Find(t.Context(), jobs.Query{Name: "report.pdf"}, 10, q.now)
		if err != nil || len(views) != 1 || views[0].Name != "report.pdf" || views[0].OrderingKey != "a" || !views[0].Created.Equal(base) {
			t.Errorf("Find = %+v, %v", views, err)
		}
		for _, query := range []jobs.Query{{State: "late"}, {Name: "a\x00"}} {
			if _, _, err := s.jobs.Find(t.Context(), query, 10, q.now); !errors.Is(err, jobs.ErrBad) {
				t.Errorf("Find(%+v): %v, want ErrBad", query, err)
			}
		}
	})
}

// One call looks at a bounded number of jobs, however few of them are selected.
func TestFindFar(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		const n = 20_000
		q.enqueue(jobs.Spec{Lane: jobs.Lane{Queue: 3, Endpoint: 3}, Body: jobs.Body{Name: "heavy", Key: "last"}, RunAt: q.now.Add(time.Hour)})
		q.check(s.Exec(t.Context(), fmt.Sprintf("UPDATE jobs SET id = %d", n+1)))
		q.check(s.Exec(t.Context(), fmt.Sprintf("UPDATE job_bodies SET id = %d", n+1)))
		q.check(s.Exec(t.Context(), fmt.Sprintf("INSERT INTO jobs (id, lane, event, okey) VALUES (1, %d, 0, 7)", 1<<32+1)))
		for k := 1; k < n; k *= 2 { // each time as many again
			q.check(s.Exec(t.Context(), fmt.Sprintf("INSERT INTO jobs (id, lane, event, okey) SELECT id + %d, lane, event, okey FROM jobs WHERE id <= %d", k, min(k, n-k))))
		}
		for _, query := range []jobs.Query{
			{Name: "heavy"},
			{Key: "last"},
			{State: jobs.StateWaiting},
			{Filter: jobs.Filter{Lanes: []jobs.Lane{{Queue: 3, Endpoint: 3}}}},
		} {
			views, next, err := s.jobs.Find(t.Context(), query, 10, q.now)
			if err != nil || len(views) != 0 || next != n {
				t.Errorf("Find(%+v) = %d jobs, next %d, %v, want none, and 20,000", query, len(views), next, err)
			}
			query.After = next
			views, next, err = s.jobs.Find(t.Context(), query, 10, q.now)
			if err != nil || len(views) != 1 || views[0].ID != n+1 || next != 0 {
				t.Errorf("Find(%+v) = %+v, next %d, %v, want the last job", query, views, next, err)
			}
		}
	})
}
