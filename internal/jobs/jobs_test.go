package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// lane is the one that most tests use.
var lane = jobs.Lane{Queue: 1, Endpoint: 1}

// everything makes a job of each event.
func everything(events []liveness.Event) []jobs.EventJob {
	list := make([]jobs.EventJob, len(events))
	for i := range list {
		list[i] = jobs.EventJob{Event: i, Lane: lane, Route: 1}
	}
	return list
}

// queue is a lane of a store at an instant that the test sets.
type queue struct {
	t    *testing.T
	jobs *jobs.Store
	now  time.Time
}

func newQueue(t *testing.T, s *rig) *queue {
	t.Helper()
	return &queue{t: t, jobs: s.jobs, now: base}
}

// add enqueues a job with a key.
func (q *queue) add(key string) uint64 {
	q.t.Helper()
	return q.enqueue(jobs.Spec{Lane: lane, Body: jobs.Body{Key: key, Data: []byte(`{"key":"` + key + `"}`), Created: q.now}})
}

func (q *queue) enqueue(job jobs.Spec) uint64 {
	q.t.Helper()
	ids, err := q.jobs.Enqueue(q.t.Context(), []jobs.Spec{job})
	if err != nil {
		q.t.Fatal(err)
	}
	return ids[0]
}

func (q *queue) claim(n int) jobs.Claimed {
	q.t.Helper()
	got, err := q.jobs.Claim(q.t.Context(), lane, n, q.now, time.Minute)
	if err != nil {
		q.t.Fatal(err)
	}
	return got
}

func (q *queue) ack(outcomes ...jobs.Ack) bool {
	q.t.Helper()
	released, err := q.jobs.Ack(q.t.Context(), outcomes, q.now)
	if err != nil {
		q.t.Fatal(err)
	}
	return released
}

func (q *queue) want(what string, got []jobs.Job, want ...uint64) {
	q.t.Helper()
	if ids := idsOf(got); !slices.Equal(ids, want) {
		q.t.Fatalf("%s: claimed %v, want %v", what, ids, want)
	}
}

func idsOf(list []jobs.Job) []uint64 {
	var ids []uint64
	for _, j := range list {
		ids = append(ids, j.ID)
	}
	return ids
}

func TestOutbox(t *testing.T) {
	var told []jobs.Lane
	eachDatabase(t, config{Outbox: everything}, func(t *testing.T, s *rig) {
		t.Helper()
		told = nil
		s.jobs.Watch(func(lanes []jobs.Lane) { told = append(told, lanes...) })
		q := newQueue(t, s)
		events := []liveness.Event{
			device(1, "dev-1", 1, liveness.DeviceOnline), device(1, "dev-1", 2, liveness.DeviceOffline), device(2, "Gerät 2 ", 1, liveness.DeviceFailed),
			{Type: liveness.SourceDeaf, Subject: "gateway", Source: "gateway", Seq: 1, Time: base, Deaf: 3 * time.Second},
		}
		appendAll(t, s, events...)
		if !slices.Equal(told, []jobs.Lane{lane}) || s.jobs.Depths()[lane] != int64(len(events)) {
			t.Errorf("told of %v, depths %v", told, s.jobs.Depths())
		}
		got := q.claim(100)
		q.want("all", got.Jobs, 1, 2, 3, 4)
		if got.More {
			t.Error("More, although all were claimed")
		}
		for i, job := range got.Jobs {
			if job.Event != events[i].Offset || job.Body != nil || job.Key == 0 {
				t.Errorf("job %+v, want one of event %d", job, events[i].Offset)
			}
		}
		if got.Jobs[0].Key != got.Jobs[1].Key || got.Jobs[0].Key == got.Jobs[2].Key {
			t.Errorf("keys %d %d %d: those of a device are the same", got.Jobs[0].Key, got.Jobs[1].Key, got.Jobs[2].Key)
		}
		var done []jobs.Ack
		for _, job := range got.Jobs {
			done = append(done, jobs.Ack{Job: job})
		}
		q.ack(done...)
		q.ack(done...) // does no harm
		if len(s.jobs.Depths()) != 0 {
			t.Errorf("depths %v after all are done", s.jobs.Depths())
		}
		if needed, err := s.jobs.Needed(t.Context()); needed != math.MaxUint64 || err != nil {
			t.Errorf("Needed = %d, %v, want no event", needed, err)
		}
	})
}

func TestEnqueue(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		body := jobs.Body{
			Message: "m", Key: "Gerät 1", URL: "https://example.org/?a=b", ContentType: "application/json", Data: []byte("{\"a\":\"\\u0000☃'\"}\x00\xff"),
			Created: base, Deadline: base.Add(time.Hour),
		}
		first := q.enqueue(jobs.Spec{Lane: lane, Unique: "once", Body: body})
		if again := q.enqueue(jobs.Spec{Lane: lane, Unique: "once"}); again != first {
			t.Errorf("the second job with a key has number %d, want that of the first, %d", again, first)
		}
		later := q.enqueue(jobs.Spec{Lane: lane, RunAt: base.Add(time.Minute)})
		other := q.enqueue(jobs.Spec{Lane: jobs.Lane{Queue: 1}, Body: jobs.Body{URL: "https://example.org/other"}})
		got := q.claim(10)
		q.want("at once", got.Jobs, first)
		if !reflect.DeepEqual(got.Jobs[0].Body, &body) {
			t.Errorf("body %+v, want %+v", got.Jobs[0].Body, body)
		}
		if !got.Next.Equal(base.Add(time.Minute)) {
			t.Errorf("Next = %v, want a minute later", got.Next.Sub(base))
		}
		if b, err := s.jobs.Body(t.Context(), later); err != nil || b.Message != fmt.Sprintf("job:%d", later) {
			t.Errorf("Body = %+v, %v", b, err)
		}
		q.now = base.Add(time.Minute)
		q.ack(jobs.Ack{Job: got.Jobs[0]})
		q.want("later", q.claim(10).Jobs, later)
		if _, err := s.jobs.Body(t.Context(), first); !errors.Is(err, jobs.ErrUnknown) {
			t.Errorf("Body of a job that is done: %v", err)
		}
		views, err := s.jobs.List(t.Context(), jobs.Filter{}, 10, q.now)
		if err != nil || len(views) != 2 || views[0].State != jobs.StateClaimed || views[1].ID != other || views[1].State != jobs.StateReady ||
			views[0].URL != "" || views[1].URL != "https://example.org/other" {
			t.Errorf("List = %+v, %v", views, err)
		}
	})
}

// A job that waits for another attempt holds back those with its key, and no others; they follow in their order.
func TestOrder(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		a1, b1, a2, none := q.add("a"), q.add("b"), q.add("a"), q.add("")
		got := q.claim(2)
		q.want("first", got.Jobs, a1, b1)
		if !got.More {
			t.Error("More = false with jobs left")
		}
		q.ack(
			jobs.Ack{Job: got.Jobs[0], Outcome: jobs.Retry, RunAt: q.now.Add(time.Hour), Error: "refused"},
			jobs.Ack{Job: got.Jobs[1]},
		)
		a3, b2 := q.add("a"), q.add("b")
		q.want("a waits", q.claim(10).Jobs, none, b2)
		q.want("nothing is left", q.claim(10).Jobs)
		if views, err := s.jobs.List(t.Context(), jobs.Filter{Lanes: []jobs.Lane{lane}}, 3, q.now); err != nil ||
			views[0].State != jobs.StateWaiting || views[0].Error != "refused" || views[0].Attempts != 1 || views[1].State != jobs.StateBlocked {
			t.Errorf("List = %+v, %v", views, err)
		}
		q.now = q.now.Add(time.Hour)
		got = q.claim(10)
		ids := idsOf(got.Jobs)
		if !slices.Contains(ids, a1) || slices.Contains(ids, a2) || slices.Contains(ids, a3) {
			t.Fatalf("an hour later: %v, want %d among them, without %d and %d", ids, a1, a2, a3)
		}
		for _, job := range got.Jobs {
			if job.ID == a1 && job.Attempts != 1 {
				t.Errorf("attempts = %d, want 1", job.Attempts)
			}
			if job.ID == a1 && !q.ack(jobs.Ack{Job: job}) {
				t.Error("nothing was released")
			}
		}
		got = q.claim(10)
		q.want("the next one", got.Jobs, a2)
		a4 := q.add("a")
		q.want("the latest stays behind", q.claim(10).Jobs)
		q.ack(jobs.Ack{Job: got.Jobs[0], Outcome: jobs.Dead, Error: "no"})
		got = q.claim(10)
		q.want("after a dead letter", got.Jobs, a3)
		q.ack(jobs.Ack{Job: got.Jobs[0], Outcome: jobs.Return})
		got = q.claim(10)
		q.want("returned", got.Jobs, a3)
		q.ack(jobs.Ack{Job: got.Jobs[0]})
		q.want("the last", q.claim(10).Jobs, a4)
	})
}

// What a crashed process held comes back at once, what a hung one held when its lease ends; and who was overtaken changes nothing.
func TestLease(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s := open(t, config{URL: url})
			q := newQueue(t, s)
			a, b := q.add("a"), q.add("b")
			first := q.claim(10)
			q.want("all", first.Jobs, a, b)
			q.now = q.now.Add(30 * time.Second)
			if err := s.jobs.Extend(t.Context(), first.Jobs[1:], q.now.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			q.want("leased", q.claim(10).Jobs)
			q.now = q.now.Add(31 * time.Second)
			second := q.claim(10)
			q.want("the lease of one has ended", second.Jobs, a)
			q.ack(jobs.Ack{Job: first.Jobs[0]})
			if n := s.jobs.Depths()[lane]; n != 2 {
				t.Errorf("depth = %d after a claim that was lost was acked, want 2", n)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := s.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			third := q.claim(10)
			q.want("after a restart", third.Jobs, a, b)
			q.ack(jobs.Ack{Job: second.Jobs[0]}, jobs.Ack{Job: first.Jobs[1], Outcome: jobs.Dead})
			if dead, err := s.jobs.Dead(t.Context(), jobs.Filter{}, 10); err != nil || len(dead) != 0 || s.jobs.Depths()[lane] != 2 {
				t.Errorf("an old claim changed something: %v, %v, %v", dead, err, s.jobs.Depths())
			}
			if err := s.Exec(t.Context(), "UPDATE meta SET fence = fence + 1"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.jobs.Ack(t.Context(), []jobs.Ack{{Job: third.Jobs[0]}}, q.now); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Settle = %v, want ErrFenced", err)
			}
			if _, err := s.jobs.Claim(t.Context(), lane, 1, q.now, time.Minute); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Claim = %v, want ErrFenced", err)
			}
		})
	}
}

func TestDeadLetters(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		for range 5 {
			q.add("a")
		}
		for i, job := range q.claim(10).Jobs {
			q.ack(jobs.Ack{
				Job: job, Outcome: jobs.Dead, Error: fmt.Sprint("no ", i), Status: 500, Response: "sorry\x00\xff",
				Body: jobs.Body{Message: fmt.Sprint("m", i), Key: "a", Data: []byte{0, byte(i)}, Created: q.now, ContentType: "x/y"},
			})
			q.now = q.now.Add(time.Hour)
		}
		dead, err := s.jobs.Dead(t.Context(), jobs.Filter{Lanes: []jobs.Lane{lane}, After: 1}, 2)
		if err != nil || len(dead) != 2 || dead[0].ID != 2 || dead[0].Error != "no 1" || dead[0].Status != 500 || dead[0].Message != "m1" ||
			!slices.Equal(dead[0].Data, []byte{0, 1}) || dead[0].Response != "sorry\uFFFD\uFFFD" || dead[0].Attempts != 0 {
			t.Fatalf("Dead = %+v, %v", dead, err)
		}
		heads, err := s.jobs.DeadHeads(t.Context(), jobs.Filter{After: 1}, 2)
		for i := range dead {
			dead[i].Data = nil
		}
		if err != nil || !reflect.DeepEqual(heads, dead) {
			t.Errorf("DeadHeads = %+v, %v, want %+v", heads, err, dead)
		}
		if n, err := s.jobs.Replay(t.Context(), jobs.Filter{IDs: []uint64{2, 3, 99}}); err != nil || n != 2 {
			t.Errorf("Replay = %d, %v, want 2", n, err)
		}
		got := q.claim(10).Jobs
		q.want("replayed", got, 6, 7)
		if b := got[0].Body; b.Message != "m1" || !slices.Equal(b.Data, []byte{0, 1}) || b.ContentType != "x/y" || b.Key != "a" || got[0].Key == 0 ||
			!b.Created.After(q.now) || !b.Deadline.IsZero() {
			t.Errorf("body = %+v", b)
		}
		if n := s.jobs.Depths()[lane]; n != 2 {
			t.Errorf("depth %d, want 2", n)
		}
		keep := jobs.Retention{Dead: 10, DeadAge: 90 * time.Minute, KeyAge: time.Hour}
		if n, err := s.jobs.Sweep(t.Context(), keep, q.now); err != nil || n != 2 {
			t.Errorf("Sweep by age = %d, %v, want 2", n, err)
		}
		q.ack(jobs.Ack{Job: got[0], Outcome: jobs.Dead}, jobs.Ack{Job: got[1], Outcome: jobs.Dead})
		keep.Dead = 2
		if n, err := s.jobs.Sweep(t.Context(), keep, q.now); err != nil || n != 1 {
			t.Errorf("Sweep by number = %d, %v, want 1", n, err)
		}
		if n, err := s.jobs.DeleteDead(t.Context(), jobs.Filter{}); err != nil || n != 2 {
			t.Errorf("Discard = %d, %v, want 2", n, err)
		}
	})
}

// Dead letters with long bodies are written piece by piece: a statement has a longest length.
func TestLongDeadLetters(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		const n = 10
		var outcomes []jobs.Ack
		for i := range n {
			q.add("")
			body := jobs.Body{Data: bytes.Repeat([]byte{byte(i)}, 1<<20)}
			outcomes = append(outcomes, jobs.Ack{Job: q.claim(1).Jobs[0], Outcome: jobs.Dead, Body: body})
		}
		q.ack(outcomes...)
		dead, err := s.jobs.Dead(t.Context(), jobs.Filter{}, 100)
		if err != nil || len(dead) != n {
			t.Fatalf("%d dead letters, %v, want %d", len(dead), err, n)
		}
		for i := range dead {
			if !bytes.Equal(dead[i].Data, outcomes[i].Body.Data) {
				t.Errorf("the body of %d is another", dead[i].ID)
			}
		}
	})
}

// A dead letter for which there was no further attempt says what the last one came to.
func TestDeadWithoutAttempt(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		for range 2 {
			q.add("")
			q.ack(jobs.Ack{Job: q.claim(1).Jobs[0], Outcome: jobs.Retry, RunAt: q.now.Add(time.Minute), Error: "503"})
		}
		q.add("")
		q.now = q.now.Add(time.Hour)
		list := q.claim(3).Jobs
		list[1].Attempts++ // it was made, and is the last
		for _, job := range list {
			q.ack(jobs.Ack{Job: job, Outcome: jobs.Dead, Error: "no"})
		}
		dead, err := s.jobs.Dead(t.Context(), jobs.Filter{}, 10)
		if err != nil || len(dead) != 3 || dead[0].Error != "no; the last attempt: 503" || dead[1].Error != "no" || dead[2].Error != "no" {
			t.Errorf("Dead = %+v, %v", dead, err)
		}
	})
}

// What failed or was postponed is due at once, and what is still to run for the first time is not.
func TestRetryNow(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		failed, postponed := q.add("a"), q.add("")
		later := q.enqueue(jobs.Spec{Lane: lane, RunAt: q.now.Add(time.Hour)})
		list := q.claim(10).Jobs
		q.ack(
			jobs.Ack{Job: list[0], Outcome: jobs.Retry, RunAt: q.now.Add(time.Minute), Error: "refused"},
			jobs.Ack{Job: list[1], Outcome: jobs.Postpone, RunAt: q.now.Add(time.Minute)},
		)
		if n, err := s.jobs.RetryNow(t.Context(), []jobs.Lane{lane}); err != nil || n != 2 {
			t.Errorf("RetryNow = %d, %v, want 2", n, err)
		}
		q.want("retried now", q.claim(10).Jobs, failed, postponed)
		q.now = q.now.Add(time.Hour)
		q.want("an hour later", q.claim(10).Jobs, failed, postponed, later)
	})
}

// To remove a job that others wait behind lets them go.
func TestDeleteJobs(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		a1, a2 := q.add("a"), q.add("a")
		got := q.claim(1).Jobs
		q.ack(jobs.Ack{Job: got[0], Outcome: jobs.Postpone, RunAt: q.now.Add(time.Hour)})
		q.want("a2 is behind", q.claim(10).Jobs)
		if n, err := s.jobs.Delete(t.Context(), jobs.Filter{IDs: []uint64{a1}}); err != nil || n != 1 {
			t.Errorf("Delete = %d, %v", n, err)
		}
		got = q.claim(10).Jobs
		q.want("a2 is first", got, a2)
		q.ack(jobs.Ack{Job: got[0], Outcome: jobs.Retry, RunAt: q.now.Add(time.Hour)})
		if n, err := s.jobs.RetryNow(t.Context(), []jobs.Lane{lane}); err != nil || n != 1 {
			t.Errorf("RetryNow = %d, %v", n, err)
		}
		got = q.claim(10).Jobs
		q.want("retried now", got, a2)
		if n, err := s.jobs.Delete(t.Context(), jobs.Filter{Lanes: []jobs.Lane{lane}}); err != nil || n != 1 {
			t.Errorf("Delete = %d, %v", n, err)
		}
		q.ack(jobs.Ack{Job: got[0]})
		if len(s.jobs.Depths()) != 0 {
			t.Errorf("depths %v", s.jobs.Depths())
		}
	})
}

func TestJobSettings(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		ctx := t.Context()
		q := jobs.Queue{
			Name: "pager", Concurrency: 4, Rate: 2.5, Attempts: 3, Backoff: time.Second, MaxBackoff: time.Minute, MaxAge: time.Hour, MaxJobs: 10,
		}
		e := jobs.Endpoint{Name: "ops", Kind: "webhook", Target: "https://example.org/hook", Settings: []byte(`{"a":"☃"}`)}
		q.Num, e.Num = 2, 1
		if err := errors.Join(s.jobs.PutQueue(ctx, q), s.jobs.PutEndpoint(ctx, e)); err != nil {
			t.Fatal(err)
		}
		r := jobs.Route{
			Name: "all", Types: []string{"device.offline", "group.*"}, Reasons: []string{"silence"}, Group: "site", Device: "dev-*", Suppressed: true, Queue: q.Num, Endpoint: e.Num,
		}
		if err := s.jobs.PutRoute(ctx, r); err != nil {
			t.Fatal(err)
		}
		r.Num = 1
		e.Disabled, e.Note, q.Paused, r.Paused = true, "410 Gone", true, true
		if err := errors.Join(s.jobs.PutQueue(ctx, q), s.jobs.PutEndpoint(ctx, e), s.jobs.PutRoute(ctx, r)); err != nil {
			t.Fatal(err)
		}
		got, err := s.jobs.Load(ctx)
		if err != nil || len(got.Queues) != 2 || got.Queues[0].Name != "default" || !reflect.DeepEqual(got.Queues[1], q) ||
			!reflect.DeepEqual(got.Endpoints, []jobs.Endpoint{e}) || !reflect.DeepEqual(got.Routes, []jobs.Route{r}) {
			t.Errorf("Load = %+v, %v", got, err)
		}
		r.Endpoint = 77
		for _, c := range []struct {
			name string
			err  error
			want error
		}{
			{"a route to nowhere", s.jobs.PutRoute(ctx, r), jobs.ErrUnknown},
			{"a bad name", s.jobs.PutQueue(ctx, jobs.NewQueue("a/b")), jobs.ErrBad},
			{"no name", s.jobs.PutEndpoint(ctx, jobs.Endpoint{}), jobs.ErrBad},
			{"a bad queue", s.jobs.PutQueue(ctx, jobs.Queue{Name: "a"}), jobs.ErrBad},
			{"a queue with a route", s.jobs.DeleteQueue(ctx, "pager"), jobs.ErrInUse},
			{"an endpoint with a route", s.jobs.DeleteEndpoint(ctx, "ops"), jobs.ErrInUse},
			{"an unknown route", s.jobs.DeleteRoute(ctx, "none\x00"), jobs.ErrUnknown},
			{"a route", s.jobs.DeleteRoute(ctx, "all"), nil},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
			}
		}
		ids, err := s.jobs.Enqueue(ctx, []jobs.Spec{{Lane: jobs.Lane{Queue: q.Num, Endpoint: e.Num}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.jobs.DeleteQueue(ctx, "pager"); !errors.Is(err, jobs.ErrInUse) {
			t.Errorf("DeleteQueue with a job = %v", err)
		}
		if err := s.jobs.DeleteEndpoint(ctx, "ops"); !errors.Is(err, jobs.ErrInUse) {
			t.Errorf("DeleteEndpoint with a job = %v", err)
		}
		if _, err := s.jobs.Delete(ctx, jobs.Filter{IDs: ids}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.jobs.DeleteQueue(ctx, "pager"), s.jobs.DeleteEndpoint(ctx, "ops")); err != nil {
			t.Error(err)
		}
	})
}

// A transaction that failed after it was committed is counted right in the end.
func TestDepthsInDoubt(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		a, b := q.add("a"), q.add("b")
		if err := s.Exec(t.Context(), fmt.Sprintf("DELETE FROM jobs WHERE id = %d", a)); err != nil { // as if somebody had, whose answer was lost
			t.Fatal(err)
		}
		keep := jobs.Retention{Dead: 1, DeadAge: time.Hour, KeyAge: time.Hour}
		if _, err := s.jobs.Sweep(t.Context(), keep, q.now); err != nil || s.jobs.Depths()[lane] != 2 {
			t.Errorf("depths %v, %v: they were not in doubt", s.jobs.Depths(), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Exec(t.Context(), "ALTER TABLE job_numbers RENAME TO elsewhere"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.jobs.Enqueue(ctx, []jobs.Spec{{Lane: lane}}); err == nil {
			t.Error("Enqueue without a table of numbers succeeded")
		}
		if err := s.Exec(t.Context(), "ALTER TABLE elsewhere RENAME TO job_numbers"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.jobs.Sweep(t.Context(), keep, q.now); err != nil || s.jobs.Depths()[lane] != 1 {
			t.Errorf("depths %v, %v, want 1", s.jobs.Depths(), err)
		}
		q.want("what is left", q.claim(10).Jobs, b)
	})
}

// Jobs that failed while the clock was ahead are tried again soon after it was set right; those that are to run later, then.
func TestRetryOfAClockAhead(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		month := 30 * 24 * time.Hour
		a, behindA := q.add("a"), q.add("a")
		b := q.add("")
		soon := q.add("c")
		q.enqueue(jobs.Spec{Lane: lane, RunAt: q.now.Add(month)})
		list := q.claim(10).Jobs
		q.want("at first", list, a, behindA, b, soon)
		q.ack(
			jobs.Ack{Job: list[0], Outcome: jobs.Retry, RunAt: q.now.Add(month), Error: "refused"},
			jobs.Ack{Job: list[1], Outcome: jobs.Block},
			jobs.Ack{Job: list[2], Outcome: jobs.Retry, RunAt: q.now.Add(month), Error: "refused"},
			jobs.Ack{Job: list[3], Outcome: jobs.Retry, RunAt: q.now.Add(23 * time.Hour), Error: "come back tomorrow"},
		)
		q.want("before the sweep", q.claim(10).Jobs)
		if _, err := s.jobs.Sweep(t.Context(), jobs.Retention{Dead: 10, DeadAge: time.Hour, KeyAge: time.Hour}, q.now); err != nil {
			t.Fatal(err)
		}
		list = q.claim(10).Jobs
		q.want("after it", list, a, b)
		q.ack(jobs.Ack{Job: list[0], Outcome: jobs.Done}, jobs.Ack{Job: list[1], Outcome: jobs.Done})
		q.want("and the one behind", q.claim(10).Jobs, behindA)
	})
}

func TestWake(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		waiting, claimed, fresh := q.add("a"), q.add("b"), uint64(0)
		list := q.claim(2).Jobs
		q.ack(jobs.Ack{Job: list[0], Outcome: jobs.Postpone, RunAt: q.now.Add(time.Hour)})
		fresh = q.add("c")
		var told []jobs.Lane
		s.jobs.Watch(func(lanes []jobs.Lane) { told = append(told, lanes...) })
		got, err := s.jobs.Wake(t.Context(), []uint64{waiting, claimed, fresh, 999})
		if err != nil || !reflect.DeepEqual(got, []uint64{claimed}) || len(told) != 1 || told[0] != lane {
			t.Errorf("Wake: %v, %v, told of %v; want %v", got, err, told, claimed)
		}
		q.want("what is woken and what is new", q.claim(10).Jobs, waiting, fresh)
	})
}

// Before the settings are loaded, no event becomes a job.
func TestBeforeLoad(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		err := errors.Join(
			s.jobs.PutEndpoint(t.Context(), jobs.Endpoint{Name: "e", Kind: "webhook"}),
			s.jobs.PutRoute(t.Context(), jobs.Route{Name: "r", Queue: 1, Endpoint: 1}),
		)
		if err != nil {
			t.Fatal(err)
		}
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
		if depths := s.jobs.Depths(); len(depths) != 0 {
			t.Errorf("depths %v before Load", depths)
		}
		if _, err := s.jobs.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		appendAll(t, s, device(1, "dev-1", 2, liveness.DeviceOffline))
		got := newQueue(t, s).claim(10).Jobs
		if len(got) != 1 || got[0].Event != 2 {
			t.Errorf("after Load: %+v, want a job of event 2", got)
		}
	})
}

// A clock that is a month ahead for a while removes no dead letter and no idempotency key, also if the
// process starts with it.
func TestClockAhead(t *testing.T) {
	const day = 24 * time.Hour
	var wall atomic.Pointer[func() time.Time]
	show := func(clock func() time.Time) { wall.Store(&clock) }
	show(time.Now)
	cfg := config{Wall: func() time.Time { return (*wall.Load())() }}
	anyDatabase(t, cfg, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		once := jobs.Spec{Lane: lane, Unique: "once", Body: jobs.Body{Created: q.now}}
		first := q.enqueue(once)
		q.ack(jobs.Ack{Job: q.claim(1).Jobs[0], Outcome: jobs.Dead})
		sweepAt := func(when string, clock func() time.Time) {
			t.Helper()
			show(clock)
			if n, err := s.jobs.Sweep(t.Context(), jobs.Retention{Dead: 10, DeadAge: 10 * day, KeyAge: 2 * day}, clock()); n != 0 || err != nil {
				t.Errorf("%s: %d dead letters are deleted, %v", when, n, err)
			}
			if again := q.enqueue(once); again != first {
				t.Errorf("%s: the idempotency key of job %d is not known any more: there is another, %d", when, first, again)
			}
		}
		sweep := func(when string, by time.Duration) {
			t.Helper()
			sweepAt(when, func() time.Time { return time.Now().Add(by) })
		}
		restart := func() {
			t.Helper()
			if err := errors.Join(s.Close(), s.start(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			sweep("a month ahead", 30*day)
		}
		restart()
		sweep("a month ahead at the start", 30*day)
		sweep("and set right", 0)
		sweep("years behind", -20*365*day)
		sweep("as long ago as can be", math.MinInt64)
		sweep("and set right again", 0)
		sweepAt("as far ahead as can be", func() time.Time { return farAhead })
		show(time.Now)
		restart()
		sweep("after another start", 0)
	})
}
