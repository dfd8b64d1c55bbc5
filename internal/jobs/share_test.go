package jobs_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
)

// named returns n jobs with a name, each with a key of its own.
func named(name string, n int) []jobs.Spec {
	list := make([]jobs.Spec, n)
	for i := range list {
		list[i] = jobs.Spec{Lane: lane, Body: jobs.Body{Name: name, Key: fmt.Sprint(name, i), Created: base}}
	}
	return list
}

func (q *queue) enqueueAll(list ...jobs.Spec) {
	q.t.Helper()
	if _, err := q.jobs.Enqueue(q.t.Context(), list); err != nil {
		q.t.Fatal(err)
	}
}

// counts returns how many jobs have each name.
func counts(list []jobs.Job) map[string]int {
	names := make(map[string]int)
	for i := range list {
		names[list[i].Name]++
	}
	return names
}

// A few jobs with another name do not wait for many that came before.
func TestNamesTakeTurns(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		q.enqueueAll(named("heavy", 1000)...)
		q.enqueueAll(named("light", 10)...)
		q.enqueueAll(named("", 5)...)
		if got := q.jobs.Shares(lane); len(got) != 2 {
			t.Fatalf("Shares = %v, want those of two names", got)
		}
		got, err := q.jobs.Claim(t.Context(), lane, 16, q.now, time.Hour)
		if err != nil || !got.More {
			t.Fatal(got.More, err)
		}
		if n := counts(got.Jobs); n["heavy"] < 5 || n["light"] < 5 || n[""] != 5 {
			t.Errorf("of 16 jobs %v were claimed, want as many of each name, and all without one", n)
		}
		var heavy uint16
		for _, job := range got.Jobs {
			if job.Name == "heavy" {
				heavy = job.Share
			}
		}
		rest, err := q.jobs.Claim(t.Context(), lane, 16, q.now, time.Hour, heavy)
		if err != nil || rest.More || counts(rest.Jobs)["light"] != 10-counts(got.Jobs)["light"] || len(rest.Jobs) != counts(rest.Jobs)["light"] {
			t.Errorf("without the share of the heavy ones: More = %v, %v, %v", rest.More, counts(rest.Jobs), err)
		}
		if got := q.jobs.Shares(lane); len(got) != 1 || got[0] != heavy {
			t.Errorf("Shares = %v, want [%d]", got, heavy)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		total := 0
		for more := true; more; {
			got, err := q.jobs.Claim(t.Context(), lane, 100, q.now, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			total, more = total+len(got.Jobs), got.More
		}
		if total != 1015 {
			t.Errorf("%d jobs were claimed after a restart, want all 1015", total)
		}
	})
}

// Claims go on at once while there are names that they have not looked at.
func TestManyNames(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		const n = 200
		q := newQueue(t, s)
		list := make([]jobs.Spec, n)
		for i := range list {
			list[i] = jobs.Spec{Lane: lane, Body: jobs.Body{Name: strconv.Itoa(i), Created: base}}
		}
		q.enqueueAll(list...)
		total := 0
		for more := true; more; {
			got := q.claim(100)
			if total, more = total+len(got.Jobs), got.More; len(got.Jobs) == 0 && more {
				t.Fatal("More = true, and no job was claimed")
			}
		}
		if total != n {
			t.Errorf("%d jobs were claimed until More was false, want %d", total, n)
		}
	})
}

// The order of a key holds across names, and a name is never lost: not in lists, of a large body, nor
// of a dead letter that is replayed.
func TestNamesKeepOrder(t *testing.T) {
	anyDatabase(t, config{}, func(t *testing.T, s *rig) {
		t.Helper()
		q := newQueue(t, s)
		spec := func(name string) jobs.Spec {
			return jobs.Spec{Lane: lane, Body: jobs.Body{Name: name, Key: "k", Created: base, Data: make([]byte, 5000)}}
		}
		q.enqueueAll(append(named("", 20), spec(""), spec("heavy"), spec("light"), spec("heavy"))...) // 21 to 24
		got, err := q.jobs.Claim(t.Context(), lane, 2, q.now, time.Hour)
		if err != nil || len(got.Jobs) != 2 || !got.More {
			t.Fatal(got, err)
		}
		q.want("those before the first of the key", got.Jobs, 1, 2)
		views, err := q.jobs.List(t.Context(), jobs.Filter{After: 20}, 10, q.now)
		if err != nil || len(views) != 4 || views[2].Name != "light" || views[2].State != jobs.StateReady || !views[2].RunAt.IsZero() {
			t.Fatalf("List = %+v, %v", views, err)
		}
		var rest []jobs.Job
		for more := true; more; {
			got, err := q.jobs.Claim(t.Context(), lane, 7, q.now, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			for _, job := range got.Jobs {
				if job.Key == 0 || len(rest) > 0 && rest[len(rest)-1].ID > job.ID && rest[len(rest)-1].Key == job.Key {
					t.Errorf("job %d came after %d", job.ID, rest[len(rest)-1].ID)
				}
			}
			rest, more = append(rest, got.Jobs...), got.More
		}
		last := rest[len(rest)-3:]
		if last[0].Name != "heavy" || last[1].Name != "light" || last[1].Body != nil {
			t.Fatalf("the last ones are %+v", last)
		}
		q.ack(jobs.Ack{Job: last[1], Outcome: jobs.Dead, Body: jobs.Body{Name: last[1].Name, Key: "k", Data: []byte("{}"), Created: base}})
		if n, err := q.jobs.Replay(t.Context(), jobs.Filter{}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if got, err := q.jobs.Claim(t.Context(), lane, 7, q.now, time.Hour); err != nil || len(got.Jobs) != 1 || got.Jobs[0].Name != "light" {
			t.Errorf("Claim = %+v, %v, want the replayed job", got.Jobs, err)
		}
	})
}
