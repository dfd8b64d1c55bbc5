package jobs_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
)

// routing is a queue with two endpoints and a second queue.
func routing(t *testing.T, s *rig) *queue {
	t.Helper()
	q := newQueue(t, s)
	q.check(q.jobs.PutQueue(t.Context(), jobs.NewQueue("slow")))
	for _, name := range []string{"one", "two"} {
		q.check(q.jobs.PutEndpoint(t.Context(), jobs.Endpoint{Name: name, Kind: "webhook"}))
	}
	return q
}

func (q *queue) check(err error) {
	q.t.Helper()
	if err != nil {
		q.t.Fatal(err)
	}
}

// send enqueues a job whose lane its name decides, as far as to leaves it open.
func (q *queue) send(name, key string, to jobs.Lane) uint64 {
	q.t.Helper()
	return q.enqueue(jobs.Spec{Lane: to, Route: true, Body: jobs.Body{Name: name, Key: key, Created: base}})
}

func (q *queue) reroute(pattern string, queue uint32) {
	q.t.Helper()
	q.check(q.jobs.PutJobRoute(q.t.Context(), jobs.JobRoute{Name: "r", Jobs: pattern, Queue: queue, Endpoint: 2, Weight: 1}))
}

func (q *queue) from(in jobs.Lane) []jobs.Job {
	q.t.Helper()
	var list []jobs.Job
	for more := true; more; {
		got, err := q.jobs.Claim(q.t.Context(), in, 1000, q.now, 24*time.Hour)
		q.check(err)
		list, more = append(list, got.Jobs...), got.More
	}
	slices.SortFunc(list, func(a, b jobs.Job) int { return int(a.ID) - int(b.ID) })
	return list
}

// A job goes where its sender says, then where the longest pattern says that matches its name, then to
// the queue of its endpoint.
func TestJobRoutes(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := routing(t, s)
		ctx := t.Context()
		_, err := q.jobs.Enqueue(ctx, []jobs.Spec{{Route: true, Body: jobs.Body{Name: "report.pdf"}}})
		if !errors.Is(err, jobs.ErrBad) {
			t.Errorf("Enqueue without endpoint: %v, want ErrBad", err)
		}
		q.reroute("report.*", 2)
		q.check(q.jobs.PutJobRoute(ctx, jobs.JobRoute{Name: "all", Jobs: "*", Weight: 1}))
		q.check(q.jobs.PutEndpoint(ctx, jobs.Endpoint{Name: "one", Kind: "webhook", Queue: 2}))
		settings, err := q.jobs.Load(ctx)
		q.check(err)
		for _, c := range []struct {
			name     string
			to, want jobs.Lane
		}{
			{"report.pdf", jobs.Lane{}, jobs.Lane{Queue: 2, Endpoint: 2}},
			{"report.pdf", jobs.Lane{Endpoint: 1}, jobs.Lane{Queue: 2, Endpoint: 1}},
			{"report.pdf", jobs.Lane{Queue: 1}, jobs.Lane{Queue: 1, Endpoint: 2}},
			{"mail", jobs.Lane{Endpoint: 2}, jobs.Lane{Queue: 1, Endpoint: 2}},
			{"", jobs.Lane{Endpoint: 1}, jobs.Lane{Queue: 2, Endpoint: 1}},
		} {
			if to, err := settings.LaneOf(c.name, c.to, false); err != nil || to != c.want {
				t.Errorf("LaneOf(%q, %v) = %v, %v, want %v", c.name, c.to, to, err, c.want)
			}
			id := q.send(c.name, "", c.to)
			views, err := q.jobs.List(ctx, jobs.Filter{IDs: []uint64{id}}, 1, q.now)
			if err != nil || len(views) != 1 || views[0].Lane != c.want {
				t.Errorf("%q to %v is in %+v, %v; want %v", c.name, c.to, views, err, c.want)
			}
		}
		bad := map[error]jobs.JobRoute{
			jobs.ErrBad:     {Name: "b", Jobs: "x", Weight: 101},
			jobs.ErrUnknown: {Name: "b", Jobs: "x", Weight: 1, Queue: 9},
		}
		for want, r := range bad {
			if err := q.jobs.PutJobRoute(ctx, r); !errors.Is(err, want) {
				t.Errorf("PutJobRoute(%+v): %v, want %v", r, err, want)
			}
		}
		if err := q.jobs.PutJobRoute(ctx, jobs.JobRoute{Name: "b", Weight: 1}); !errors.Is(err, jobs.ErrBad) {
			t.Errorf("PutJobRoute without a pattern: %v", err)
		}
		if err := q.jobs.DeleteJobRoute(ctx, "none"); !errors.Is(err, jobs.ErrUnknown) {
			t.Errorf("DeleteJobRoute: %v", err)
		}
		q.check(q.jobs.DeleteJobRoute(ctx, "r"))
		if err := q.jobs.DeleteQueue(ctx, "slow"); !errors.Is(err, jobs.ErrInUse) {
			t.Errorf("DeleteQueue of an endpoint's queue: %v, want ErrInUse", err)
		}
	})
}

// When a job route or a default queue changes, new jobs wait for those with their keys where they went
// before.
func TestJobRouteKeepsOrder(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := routing(t, s)
		to := jobs.Lane{Endpoint: 2}
		q.send("pdf", "a", to) // 1
		q.send("pdf", "b", to) // 2
		old := jobs.Lane{Queue: 1, Endpoint: 2}
		first := q.from(old)
		q.reroute("p*", 2)
		q.send("pdf", "a", to) // 3
		q.send("pdf", "c", to) // 4
		slow := jobs.Lane{Queue: 2, Endpoint: 2}
		q.want("who has no older ones", q.from(slow), 4)
		q.ack(jobs.Ack{Job: first[0]})
		q.want("then", q.from(slow), 3)
		q.check(q.jobs.PutJobRoute(t.Context(), jobs.JobRoute{Name: "s", Jobs: "pd*", Queue: 1, Weight: 1}))
		q.send("pdf", "a", to) // 5
		q.want("the first lane", q.from(old))
		q.check(q.jobs.DeleteJobRoute(t.Context(), "s"))
		q.check(q.jobs.DeleteJobRoute(t.Context(), "r"))
		q.check(q.jobs.PutEndpoint(t.Context(), jobs.Endpoint{Name: "two", Kind: "webhook", Queue: 2}))
		q.send("pdf", "b", to) // 6
		q.want("the default queue", q.from(slow))
		q.ack(jobs.Ack{Job: first[1]})
		q.want("when the first one is gone", q.from(slow), 6)
	})
}

// Jobs that wait are moved, also many, and the order of each key holds among those that were moved, those
// that stay, and those that were claimed before.
func TestMove(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := routing(t, s)
		ctx := t.Context()
		old, slow := jobs.Lane{Queue: 1, Endpoint: 2}, jobs.Lane{Queue: 2, Endpoint: 2}
		q.send("pdf", "a", old)  // 1
		first := q.from(old)     // which is claimed
		q.send("pdf", "a", old)  // 2
		q.send("mail", "a", old) // 3
		q.send("pdf", "a", old)  // 4
		q.send("pdf", "b", old)  // 5
		q.send("", "a", slow)    // 6, which was in the other lane before, and does not overtake
		later := q.enqueue(jobs.Spec{Lane: old, RunAt: q.now.Add(time.Hour), Body: jobs.Body{Name: "pdf", Key: "d", Created: base}})
		if _, err := q.jobs.Move(ctx, "p*", 9); !errors.Is(err, jobs.ErrUnknown) {
			t.Errorf("Move to an unknown queue: %v", err)
		}
		n, err := q.jobs.Move(ctx, "p*", 2)
		if err != nil || n != 4 {
			t.Fatalf("Move = %d, %v, want 4", n, err)
		}
		if n, err := q.jobs.Move(ctx, "p*", 2); err != nil || n != 0 {
			t.Errorf("Move again = %d, %v", n, err)
		}
		if d := q.jobs.Depths(); d[old] != 2 || d[slow] != 5 {
			t.Errorf("the depths are %v", d)
		}
		q.want("of no other key", q.from(slow), 5)
		q.want("nobody", q.from(old))
		q.ack(jobs.Ack{Job: first[0]})
		for _, next := range []struct {
			in jobs.Lane
			id uint64
		}{{slow, 2}, {old, 3}, {slow, 4}, {slow, 6}} {
			got := map[jobs.Lane][]jobs.Job{old: q.from(old), slow: q.from(slow)}
			q.want("the next one of the key", got[next.in], next.id)
			if n := len(got[old]) + len(got[slow]); n != 1 {
				t.Fatalf("%d jobs were claimed in both lanes, want 1", n)
			}
			q.ack(jobs.Ack{Job: got[next.in][0]})
		}
		q.now = q.now.Add(time.Hour)
		q.want("the one that was to run later", q.from(slow), later)
	})
}

// Many jobs are moved in several transactions.
func TestMoveMany(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := routing(t, s)
		const n = 1100 // more than one statement moves
		list := make([]jobs.Spec, n)
		for i := range list {
			list[i] = jobs.Spec{Lane: lane, Body: jobs.Body{Name: "pdf", Key: strconv.Itoa(i % 100), Created: base}}
		}
		q.enqueueAll(list...)
		moved, err := q.jobs.Move(t.Context(), "pdf", 2)
		if err != nil || moved != n {
			t.Fatalf("Move = %d, %v, want %d", moved, err, n)
		}
		if got := q.from(lane); len(got) != 0 {
			t.Errorf("%d jobs are left", len(got))
		}
		seen := make(map[int64]uint64)
		for done := 0; done < n; {
			got := q.from(jobs.Lane{Queue: 2, Endpoint: 1})
			if len(got) == 0 {
				t.Fatalf("%d of %d are done, and no more can be claimed", done, n)
			}
			for _, job := range got {
				if seen[job.Key] > job.ID {
					t.Fatalf("job %d came after %d", job.ID, seen[job.Key])
				}
				seen[job.Key] = job.ID
			}
			q.ack(of(got, jobs.Done, q.now)...)
			done += len(got)
		}
	})
}
