package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
	"github.com/holter-iot/holter/store"
)

// lane is the one that most tests use.
var lane = store.Lane{Queue: 1, Endpoint: 1}

// everything makes a job of each event.
func everything(events []liveness.Event) []store.EventJob {
	jobs := make([]store.EventJob, len(events))
	for i := range jobs {
		jobs[i] = store.EventJob{Event: i, Lane: lane, Route: 1}
	}
	return jobs
}

// eachDatabase runs a test with an open store on each kind of database.
func eachDatabase(t *testing.T, cfg config, test func(t *testing.T, s *store.Store)) {
	t.Helper()
	for _, db := range databases {
		t.Run("db="+db.name, func(t *testing.T) {
			cfg := cfg
			cfg.URL = db.url(t)
			s, _ := open(t, cfg)
			test(t, s)
		})
	}
}

// queue is a lane of a store at an instant that the test sets.
type queue struct {
	t    *testing.T
	jobs *store.Jobs
	now  time.Time
}

func newQueue(t *testing.T, s *store.Store) *queue {
	t.Helper()
	return &queue{t: t, jobs: s.Jobs(), now: base}
}

// add enqueues a job with a key.
func (q *queue) add(key string) uint64 {
	q.t.Helper()
	return q.enqueue(store.NewJob{Lane: lane, JobBody: store.JobBody{Key: key, Data: []byte(`{"key":"` + key + `"}`), Created: q.now}})
}

func (q *queue) enqueue(job store.NewJob) uint64 {
	q.t.Helper()
	ids, err := q.jobs.Enqueue(q.t.Context(), []store.NewJob{job})
	if err != nil {
		q.t.Fatal(err)
	}
	return ids[0]
}

func (q *queue) claim(n int) store.Claimed {
	q.t.Helper()
	got, err := q.jobs.Claim(q.t.Context(), lane, n, q.now, time.Minute)
	if err != nil {
		q.t.Fatal(err)
	}
	return got
}

func (q *queue) settle(outcomes ...store.Outcome) bool {
	q.t.Helper()
	released, err := q.jobs.Settle(q.t.Context(), outcomes, q.now)
	if err != nil {
		q.t.Fatal(err)
	}
	return released
}

func (q *queue) want(what string, got []store.Job, want ...uint64) {
	q.t.Helper()
	if ids := idsOf(got); !slices.Equal(ids, want) {
		q.t.Fatalf("%s: claimed %v, want %v", what, ids, want)
	}
}

func idsOf(jobs []store.Job) []uint64 {
	var ids []uint64
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func TestOutbox(t *testing.T) {
	var told []store.Lane
	eachDatabase(t, config{Outbox: everything}, func(t *testing.T, s *store.Store) {
		t.Helper()
		told = nil
		s.Jobs().Watch(func(lanes []store.Lane) { told = append(told, lanes...) })
		q := newQueue(t, s)
		events := sample()
		appendAll(t, s, events...)
		if !slices.Equal(told, []store.Lane{lane}) || s.Jobs().Depths()[lane] != int64(len(events)) {
			t.Errorf("told of %v, depths %v", told, s.Jobs().Depths())
		}
		got := q.claim(100)
		q.want("all", got.Jobs, 1, 2, 3, 4, 5, 6, 7)
		if got.More {
			t.Error("More, although all were claimed")
		}
		var offsets []uint64
		for i, job := range got.Jobs {
			if job.Event != events[i].Offset || job.Body != nil || job.Key == 0 {
				t.Errorf("job %+v, want one of event %d", job, events[i].Offset)
			}
			offsets = append(offsets, job.Event)
		}
		if got.Jobs[0].Key != got.Jobs[1].Key || got.Jobs[0].Key == got.Jobs[2].Key {
			t.Errorf("keys %d %d %d: those of a device are the same", got.Jobs[0].Key, got.Jobs[1].Key, got.Jobs[2].Key)
		}
		read, err := s.EventsAt(t.Context(), offsets)
		if err != nil || !reflect.DeepEqual(read, bare(events)) {
			t.Errorf("EventsAt = %v, %v", summary(read), err)
		}
		var done []store.Outcome
		for _, job := range got.Jobs {
			done = append(done, store.Outcome{Job: job})
		}
		q.settle(done...)
		q.settle(done...) // does no harm
		if len(s.Jobs().Depths()) != 0 {
			t.Errorf("depths %v after all are done", s.Jobs().Depths())
		}
	})
}

// The events that jobs need are read from the database, too, and are kept longer than others.
func TestOutboxKeepsEvents(t *testing.T) {
	eachDatabase(t, config{Outbox: everything, Keep: 15, MaxAge: math.MaxInt64, Cache: 1}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		for i := range uint64(20) {
			appendAll(t, s, device(1, "dev-1", i+1, liveness.DeviceOnline))
		}
		got := q.claim(12)
		prune := func(want uint64) {
			t.Helper()
			if err := s.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			if oldest, _ := s.Bounds(); oldest != want {
				t.Errorf("the oldest event is %d, want %d", oldest, want)
			}
		}
		prune(1)
		if events, err := s.EventsAt(t.Context(), []uint64{1, 7, 20, 99}); err != nil || len(events) != 3 {
			t.Errorf("EventsAt = %v, %v, want those with 1, 7 and 20", summary(events), err)
		}
		for _, job := range got.Jobs[:3] {
			q.settle(store.Outcome{Job: job})
		}
		prune(4)
		for i := range uint64(20) { // beyond twice the bound, they go nevertheless
			appendAll(t, s, device(1, "dev-1", i+21, liveness.DeviceOnline))
		}
		prune(11)
	})
}

// A batch whose transaction was committed although it failed has its jobs once.
func TestOutboxAmbiguous(t *testing.T) {
	eachDatabase(t, config{Outbox: everything}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		events := []liveness.Event{device(1, "dev-1", 1, liveness.DeviceOnline), device(2, "dev-2", 1, liveness.DeviceOnline)}
		if err := s.Ambiguous(t.Context(), slices.Clone(events)); err != nil {
			t.Fatal(err)
		}
		events = append(events, device(1, "dev-1", 2, liveness.DeviceOffline))
		appendAll(t, s, events...)
		q.want("all", q.claim(100).Jobs, 1, 2, 3)
		if n := s.Jobs().Depths()[lane]; n != 3 {
			t.Errorf("depth %d, want 3", n)
		}
	})
}

func TestEnqueue(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		body := store.JobBody{
			Message: "m", Key: "Gerät 1", URL: "https://example.org/?a=b", ContentType: "application/json", Data: []byte("{\"a\":\"\\u0000☃'\"}\x00\xff"),
			Created: base, Deadline: base.Add(time.Hour),
		}
		first := q.enqueue(store.NewJob{Lane: lane, Unique: "once", JobBody: body})
		if again := q.enqueue(store.NewJob{Lane: lane, Unique: "once"}); again != first {
			t.Errorf("the second job with a key has number %d, want that of the first, %d", again, first)
		}
		later := q.enqueue(store.NewJob{Lane: lane, RunAt: base.Add(time.Minute)})
		other := q.enqueue(store.NewJob{Lane: store.Lane{Queue: 1}, JobBody: store.JobBody{URL: "https://example.org/other"}})
		got := q.claim(10)
		q.want("at once", got.Jobs, first)
		if !reflect.DeepEqual(got.Jobs[0].Body, &body) {
			t.Errorf("body %+v, want %+v", got.Jobs[0].Body, body)
		}
		if !got.Next.Equal(base.Add(time.Minute)) {
			t.Errorf("Next = %v, want a minute later", got.Next.Sub(base))
		}
		if b, err := s.Jobs().Body(t.Context(), later); err != nil || b.Message != fmt.Sprintf("job:%d", later) {
			t.Errorf("Body = %+v, %v", b, err)
		}
		q.now = base.Add(time.Minute)
		q.settle(store.Outcome{Job: got.Jobs[0]})
		q.want("later", q.claim(10).Jobs, later)
		if _, err := s.Jobs().Body(t.Context(), first); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("Body of a job that is done: %v", err)
		}
		views, err := s.Jobs().List(t.Context(), store.JobFilter{}, 10, q.now)
		if err != nil || len(views) != 2 || views[0].State != store.JobClaimed || views[1].ID != other || views[1].State != store.JobReady ||
			views[0].URL != "" || views[1].URL != "https://example.org/other" {
			t.Errorf("List = %+v, %v", views, err)
		}
	})
}

// A job that waits for another attempt holds back those with its key, and no others; they follow in their order.
func TestOrder(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		a1, b1, a2, none := q.add("a"), q.add("b"), q.add("a"), q.add("")
		got := q.claim(2)
		q.want("first", got.Jobs, a1, b1)
		if !got.More {
			t.Error("More = false with jobs left")
		}
		q.settle(
			store.Outcome{Job: got.Jobs[0], Verdict: store.Retry, RunAt: q.now.Add(time.Hour), Error: "refused"},
			store.Outcome{Job: got.Jobs[1]},
		)
		a3, b2 := q.add("a"), q.add("b")
		q.want("a waits", q.claim(10).Jobs, none, b2)
		q.want("nothing is left", q.claim(10).Jobs)
		if views, err := s.Jobs().List(t.Context(), store.JobFilter{Lanes: []store.Lane{lane}}, 3, q.now); err != nil ||
			views[0].State != store.JobWaiting || views[0].Error != "refused" || views[0].Attempts != 1 || views[1].State != store.JobBehind {
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
			if job.ID == a1 && !q.settle(store.Outcome{Job: job}) {
				t.Error("nothing was released")
			}
		}
		got = q.claim(10)
		q.want("the next one", got.Jobs, a2)
		a4 := q.add("a")
		q.want("the latest stays behind", q.claim(10).Jobs)
		q.settle(store.Outcome{Job: got.Jobs[0], Verdict: store.Dead, Error: "no"})
		got = q.claim(10)
		q.want("after a dead letter", got.Jobs, a3)
		q.settle(store.Outcome{Job: got.Jobs[0], Verdict: store.Return})
		got = q.claim(10)
		q.want("returned", got.Jobs, a3)
		q.settle(store.Outcome{Job: got.Jobs[0]})
		q.want("the last", q.claim(10).Jobs, a4)
	})
}

// What a crashed process held comes back at once, what a hung one held when its lease ends; and who was overtaken changes nothing.
func TestLease(t *testing.T) {
	for _, db := range databases {
		t.Run("db="+db.name, func(t *testing.T) {
			url := db.url(t)
			s, _ := open(t, config{URL: url})
			q := newQueue(t, s)
			a, b := q.add("a"), q.add("b")
			first := q.claim(10)
			q.want("all", first.Jobs, a, b)
			q.now = q.now.Add(30 * time.Second)
			if err := s.Jobs().Extend(t.Context(), first.Jobs[1:], q.now.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			q.want("leased", q.claim(10).Jobs)
			q.now = q.now.Add(31 * time.Second)
			second := q.claim(10)
			q.want("the lease of one has ended", second.Jobs, a)
			q.settle(store.Outcome{Job: first.Jobs[0]})
			if n := s.Jobs().Depths()[lane]; n != 2 {
				t.Errorf("depth = %d after a claim that was lost was settled, want 2", n)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			reopen(t, s)
			third := q.claim(10)
			q.want("after a restart", third.Jobs, a, b)
			q.settle(store.Outcome{Job: second.Jobs[0]}, store.Outcome{Job: first.Jobs[1], Verdict: store.Dead})
			if dead, err := s.Jobs().Dead(t.Context(), store.DeadFilter{}, 10); err != nil || len(dead) != 0 || s.Jobs().Depths()[lane] != 2 {
				t.Errorf("an old claim changed something: %v, %v, %v", dead, err, s.Jobs().Depths())
			}
			if err := s.Exec(t.Context(), "UPDATE meta SET fence = fence + 1"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Jobs().Settle(t.Context(), []store.Outcome{{Job: third.Jobs[0]}}, q.now); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Settle = %v, want ErrFenced", err)
			}
			if _, err := s.Jobs().Claim(t.Context(), lane, 1, q.now, time.Minute); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Claim = %v, want ErrFenced", err)
			}
		})
	}
}

func TestDeadLetters(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		for range 5 {
			q.add("a")
		}
		for i, job := range q.claim(10).Jobs {
			q.settle(store.Outcome{
				Job: job, Verdict: store.Dead, Error: fmt.Sprint("no ", i), Status: 500, Response: "sorry\x00\xff",
				Body: store.JobBody{Message: fmt.Sprint("m", i), Key: "a", Data: []byte{0, byte(i)}, Created: q.now, ContentType: "x/y"},
			})
			q.now = q.now.Add(time.Hour)
		}
		dead, err := s.Jobs().Dead(t.Context(), store.DeadFilter{Lanes: []store.Lane{lane}, After: 1}, 2)
		if err != nil || len(dead) != 2 || dead[0].ID != 2 || dead[0].Error != "no 1" || dead[0].Status != 500 || dead[0].Message != "m1" ||
			!slices.Equal(dead[0].Data, []byte{0, 1}) || dead[0].Response != "sorry\uFFFD\uFFFD" || dead[0].Attempts != 0 {
			t.Fatalf("Dead = %+v, %v", dead, err)
		}
		heads, err := s.Jobs().DeadHeads(t.Context(), store.DeadFilter{After: 1}, 2)
		for i := range dead {
			dead[i].Data = nil
		}
		if err != nil || !reflect.DeepEqual(heads, dead) {
			t.Errorf("DeadHeads = %+v, %v, want %+v", heads, err, dead)
		}
		if n, err := s.Jobs().Replay(t.Context(), store.DeadFilter{IDs: []uint64{2, 3, 99}}); err != nil || n != 2 {
			t.Errorf("Replay = %d, %v, want 2", n, err)
		}
		got := q.claim(10).Jobs
		q.want("replayed", got, 6, 7)
		if b := got[0].Body; b.Message != "m1" || !slices.Equal(b.Data, []byte{0, 1}) || b.ContentType != "x/y" || b.Key != "a" || got[0].Key == 0 ||
			!b.Created.After(q.now) || !b.Deadline.IsZero() {
			t.Errorf("body = %+v", b)
		}
		if n := s.Jobs().Depths()[lane]; n != 2 {
			t.Errorf("depth %d, want 2", n)
		}
		keep := store.Retention{Dead: 10, DeadAge: 90 * time.Minute, KeyAge: time.Hour}
		if n, err := s.Jobs().Sweep(t.Context(), keep, q.now); err != nil || n != 2 {
			t.Errorf("Sweep by age = %d, %v, want 2", n, err)
		}
		q.settle(store.Outcome{Job: got[0], Verdict: store.Dead}, store.Outcome{Job: got[1], Verdict: store.Dead})
		keep.Dead = 2
		if n, err := s.Jobs().Sweep(t.Context(), keep, q.now); err != nil || n != 1 {
			t.Errorf("Sweep by number = %d, %v, want 1", n, err)
		}
		if n, err := s.Jobs().Discard(t.Context(), store.DeadFilter{}); err != nil || n != 2 {
			t.Errorf("Discard = %d, %v, want 2", n, err)
		}
	})
}

// Dead letters with long bodies are written piece by piece: a statement has a longest length.
func TestLongDeadLetters(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		const n = 10
		var outcomes []store.Outcome
		for i := range n {
			q.add("")
			body := store.JobBody{Data: bytes.Repeat([]byte{byte(i)}, 1<<20)}
			outcomes = append(outcomes, store.Outcome{Job: q.claim(1).Jobs[0], Verdict: store.Dead, Body: body})
		}
		q.settle(outcomes...)
		dead, err := s.Jobs().Dead(t.Context(), store.DeadFilter{}, 100)
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
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		for range 2 {
			q.add("")
			q.settle(store.Outcome{Job: q.claim(1).Jobs[0], Verdict: store.Retry, RunAt: q.now.Add(time.Minute), Error: "503"})
		}
		q.add("")
		q.now = q.now.Add(time.Hour)
		jobs := q.claim(3).Jobs
		jobs[1].Attempts++ // it was made, and is the last
		for _, job := range jobs {
			q.settle(store.Outcome{Job: job, Verdict: store.Dead, Error: "no"})
		}
		dead, err := s.Jobs().Dead(t.Context(), store.DeadFilter{}, 10)
		if err != nil || len(dead) != 3 || dead[0].Error != "no; the last attempt: 503" || dead[1].Error != "no" || dead[2].Error != "no" {
			t.Errorf("Dead = %+v, %v", dead, err)
		}
	})
}

// What failed or was postponed is hastened, and what is still to run for the first time is not.
func TestHasten(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		failed, postponed := q.add("a"), q.add("")
		later := q.enqueue(store.NewJob{Lane: lane, RunAt: q.now.Add(time.Hour)})
		jobs := q.claim(10).Jobs
		q.settle(
			store.Outcome{Job: jobs[0], Verdict: store.Retry, RunAt: q.now.Add(time.Minute), Error: "refused"},
			store.Outcome{Job: jobs[1], Verdict: store.Postpone, RunAt: q.now.Add(time.Minute)},
		)
		if n, err := s.Jobs().Hasten(t.Context(), []store.Lane{lane}); err != nil || n != 2 {
			t.Errorf("Hasten = %d, %v, want 2", n, err)
		}
		q.want("hastened", q.claim(10).Jobs, failed, postponed)
		q.now = q.now.Add(time.Hour)
		q.want("an hour later", q.claim(10).Jobs, failed, postponed, later)
	})
}

// To remove a job that others wait behind lets them go.
func TestRemoveJobs(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		a1, a2 := q.add("a"), q.add("a")
		got := q.claim(1).Jobs
		q.settle(store.Outcome{Job: got[0], Verdict: store.Postpone, RunAt: q.now.Add(time.Hour)})
		q.want("a2 is behind", q.claim(10).Jobs)
		if n, err := s.Jobs().Remove(t.Context(), store.JobFilter{IDs: []uint64{a1}}); err != nil || n != 1 {
			t.Errorf("Remove = %d, %v", n, err)
		}
		got = q.claim(10).Jobs
		q.want("a2 is first", got, a2)
		q.settle(store.Outcome{Job: got[0], Verdict: store.Retry, RunAt: q.now.Add(time.Hour)})
		if n, err := s.Jobs().Hasten(t.Context(), []store.Lane{lane}); err != nil || n != 1 {
			t.Errorf("Hasten = %d, %v", n, err)
		}
		got = q.claim(10).Jobs
		q.want("hastened", got, a2)
		if n, err := s.Jobs().Remove(t.Context(), store.JobFilter{Lanes: []store.Lane{lane}}); err != nil || n != 1 {
			t.Errorf("Remove = %d, %v", n, err)
		}
		q.settle(store.Outcome{Job: got[0]})
		if len(s.Jobs().Depths()) != 0 {
			t.Errorf("depths %v", s.Jobs().Depths())
		}
	})
}

func TestJobSettings(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		ctx, jobs := t.Context(), s.Jobs()
		q := store.Queue{
			Name: "pager", Concurrency: 4, Rate: 2.5, Attempts: 3, Backoff: time.Second, MaxBackoff: time.Minute, MaxAge: time.Hour, MaxJobs: 10,
		}
		e := store.Endpoint{Name: "ops", Kind: "webhook", Target: "https://example.org/hook", Settings: []byte(`{"a":"☃"}`)}
		var err, err2 error
		q.Num, err = jobs.PutQueue(ctx, q)
		e.Num, err2 = jobs.PutEndpoint(ctx, e)
		if err != nil || err2 != nil || q.Num != 2 || e.Num != 1 {
			t.Fatalf("numbers %d, %d; %v, %v", q.Num, e.Num, err, err2)
		}
		r := store.Route{
			Name: "all", Types: []string{"device.offline", "group.*"}, Reasons: []string{"silence"}, Group: "site", Device: "dev-*", All: true, Queue: q.Num, Endpoint: e.Num,
		}
		if r.Num, err = jobs.PutRoute(ctx, r); err != nil {
			t.Fatal(err)
		}
		e.Disabled, e.Note, q.Paused, r.Paused = true, "410 Gone", true, true
		_, err = jobs.PutQueue(ctx, q)
		_, err2 = jobs.PutEndpoint(ctx, e)
		_, err3 := jobs.PutRoute(ctx, r)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		got, err := jobs.Settings(ctx)
		if err != nil || len(got.Queues) != 2 || got.Queues[0].Name != "default" || !reflect.DeepEqual(got.Queues[1], q) ||
			!reflect.DeepEqual(got.Endpoints, []store.Endpoint{e}) || !reflect.DeepEqual(got.Routes, []store.Route{r}) {
			t.Errorf("Settings = %+v, %v", got, err)
		}
		r.Endpoint = 77
		for _, c := range []struct {
			name string
			err  error
			want error
		}{
			{"a route to nowhere", func() error { _, err := jobs.PutRoute(ctx, r); return err }(), store.ErrUnknown},
			{"a bad name", func() error { _, err := jobs.PutQueue(ctx, store.Queue{Name: "a/b"}); return err }(), store.ErrBadName},
			{"no name", func() error { _, err := jobs.PutEndpoint(ctx, store.Endpoint{}); return err }(), store.ErrBadName},
			{"a queue with a route", jobs.DeleteQueue(ctx, "pager"), store.ErrInUse},
			{"an endpoint with a route", jobs.DeleteEndpoint(ctx, "ops"), store.ErrInUse},
			{"an unknown route", jobs.DeleteRoute(ctx, "none\x00"), store.ErrUnknown},
			{"a route", jobs.DeleteRoute(ctx, "all"), nil},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
			}
		}
		ids, err := jobs.Enqueue(ctx, []store.NewJob{{Lane: store.Lane{Queue: q.Num, Endpoint: e.Num}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := jobs.DeleteQueue(ctx, "pager"); !errors.Is(err, store.ErrInUse) {
			t.Errorf("DeleteQueue with a job = %v", err)
		}
		if err := jobs.DeleteEndpoint(ctx, "ops"); !errors.Is(err, store.ErrInUse) {
			t.Errorf("DeleteEndpoint with a job = %v", err)
		}
		if _, err := jobs.Remove(ctx, store.JobFilter{IDs: ids}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(jobs.DeleteQueue(ctx, "pager"), jobs.DeleteEndpoint(ctx, "ops")); err != nil {
			t.Error(err)
		}
	})
}

// A transaction that failed after it was committed is counted right in the end.
func TestDepthsInDoubt(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		a, b := q.add("a"), q.add("b")
		if err := s.Exec(t.Context(), fmt.Sprintf("DELETE FROM jobs WHERE id = %d", a)); err != nil { // as if somebody had, whose answer was lost
			t.Fatal(err)
		}
		keep := store.Retention{Dead: 1, DeadAge: time.Hour, KeyAge: time.Hour}
		if _, err := s.Jobs().Sweep(t.Context(), keep, q.now); err != nil || s.Jobs().Depths()[lane] != 2 {
			t.Errorf("depths %v, %v: they were not in doubt", s.Jobs().Depths(), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Exec(t.Context(), "ALTER TABLE job_numbers RENAME TO elsewhere"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Jobs().Enqueue(ctx, []store.NewJob{{Lane: lane}}); err == nil {
			t.Error("Enqueue without a table of numbers succeeded")
		}
		if err := s.Exec(t.Context(), "ALTER TABLE elsewhere RENAME TO job_numbers"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Jobs().Sweep(t.Context(), keep, q.now); err != nil || s.Jobs().Depths()[lane] != 1 {
			t.Errorf("depths %v, %v, want 1", s.Jobs().Depths(), err)
		}
		q.want("what is left", q.claim(10).Jobs, b)
	})
}

// Jobs that failed while the clock was ahead are tried again soon after it was set right; those that are to run later, then.
func TestRetryOfAClockAhead(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		month := 30 * 24 * time.Hour
		a, behindA := q.add("a"), q.add("a")
		b := q.add("")
		soon := q.add("c")
		q.enqueue(store.NewJob{Lane: lane, RunAt: q.now.Add(month)})
		jobs := q.claim(10).Jobs
		q.want("at first", jobs, a, behindA, b, soon)
		q.settle(
			store.Outcome{Job: jobs[0], Verdict: store.Retry, RunAt: q.now.Add(month), Error: "refused"},
			store.Outcome{Job: jobs[1], Verdict: store.Behind},
			store.Outcome{Job: jobs[2], Verdict: store.Retry, RunAt: q.now.Add(month), Error: "refused"},
			store.Outcome{Job: jobs[3], Verdict: store.Retry, RunAt: q.now.Add(23 * time.Hour), Error: "come back tomorrow"},
		)
		q.want("before the sweep", q.claim(10).Jobs)
		if _, err := s.Jobs().Sweep(t.Context(), store.Retention{Dead: 10, DeadAge: time.Hour, KeyAge: time.Hour}, q.now); err != nil {
			t.Fatal(err)
		}
		jobs = q.claim(10).Jobs
		q.want("after it", jobs, a, b)
		q.settle(store.Outcome{Job: jobs[0], Verdict: store.Done}, store.Outcome{Job: jobs[1], Verdict: store.Done})
		q.want("and the one behind", q.claim(10).Jobs, behindA)
	})
}
