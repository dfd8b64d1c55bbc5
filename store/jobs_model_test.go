package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/store"
)

// line is a model of a lane: the jobs that are not done, and what a worker holds.
type line struct {
	t       *rapid.T
	jobs    *store.Jobs
	now     time.Time
	open    map[uint64]string    // by number, the key
	delayed map[uint64]time.Time // those that nobody was to look at before an instant
	waits   map[uint64]time.Time // those that wait for another attempt
	held    []store.Job          // that the worker has claimed, in its order
	done    map[string][]uint64
}

func (l *line) check(err error) {
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *line) enqueue(t *rapid.T) {
	key := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key")
	job := store.NewJob{Lane: lane, JobBody: store.JobBody{Key: key}}
	delay := rapid.SampledFrom([]time.Duration{0, 0, 0, 30 * time.Second}).Draw(t, "delay")
	if delay > 0 {
		job.RunAt = l.now.Add(delay)
	}
	ids, err := l.jobs.Enqueue(t.Context(), []store.NewJob{job})
	l.check(err)
	l.open[ids[0]] = key
	if delay > 0 {
		l.delayed[ids[0]] = job.RunAt
	}
}

// claim claims, and checks that no job came before one with its key that has a smaller number and is to be looked at.
func (l *line) claim(t *rapid.T) {
	got, err := l.jobs.Claim(t.Context(), lane, rapid.IntRange(1, 6).Draw(t, "n"), l.now, time.Hour)
	l.check(err)
	for _, job := range got.Jobs {
		key, open := l.open[job.ID]
		if !open || slices.ContainsFunc(l.held, func(h store.Job) bool { return h.ID == job.ID }) {
			t.Fatalf("job %d was claimed, and is done or held", job.ID)
		}
		if l.delayed[job.ID].After(l.now) || l.waits[job.ID].After(l.now) {
			t.Fatalf("job %d was claimed before its time", job.ID)
		}
		delete(l.delayed, job.ID)
		delete(l.waits, job.ID)
		l.held = append(l.held, job)
		for other, its := range l.open {
			_, delayed := l.delayed[other]
			if key != "" && its == key && other < job.ID && !delayed && l.place(other) < 0 && !slices.Contains(idsOf(got.Jobs), other) {
				t.Fatalf("job %d was claimed before %d with the same key", job.ID, other)
			}
		}
	}
}

func (l *line) place(id uint64) int {
	return slices.IndexFunc(l.held, func(h store.Job) bool { return h.ID == id })
}

// first returns the place of a held job that is the first of its key.
func (l *line) first(t *rapid.T) int {
	var heads []int
	for i, job := range l.held {
		smaller := slices.ContainsFunc(l.held, func(h store.Job) bool { return h.Key != 0 && h.Key == job.Key && h.ID < job.ID })
		if !smaller {
			heads = append(heads, i)
		}
	}
	return rapid.SampledFrom(heads).Draw(t, "head")
}

// settle settles a held job as a worker does.
func (l *line) settle(t *rapid.T) {
	if len(l.held) == 0 {
		t.Skip("nothing is held")
	}
	i := l.first(t)
	job := l.held[i]
	l.held = slices.Delete(l.held, i, i+1)
	outcomes := []store.Outcome{{Job: job, Verdict: rapid.SampledFrom([]store.Verdict{
		store.Done, store.Done, store.Retry, store.Postpone, store.Return, store.Dead,
	}).Draw(t, "verdict")}}
	switch o := &outcomes[0]; o.Verdict {
	case store.Done, store.Dead:
		key := l.open[job.ID]
		delete(l.open, job.ID)
		if key != "" {
			l.done[key] = append(l.done[key], job.ID)
		}
	default:
		if o.Verdict != store.Return {
			o.RunAt = l.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "pause")) * time.Second)
			l.waits[job.ID] = o.RunAt
		}
		l.held = slices.DeleteFunc(l.held, func(h store.Job) bool {
			follows := job.Key != 0 && h.Key == job.Key
			if follows {
				outcomes = append(outcomes, store.Outcome{Job: h, Verdict: store.Behind})
			}
			return follows
		})
	}
	_, err := l.jobs.Settle(t.Context(), outcomes, l.now)
	l.check(err)
}

func (l *line) pass(t *rapid.T) {
	l.now = l.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
}

// drain works on what is left until nothing is.
func (l *line) drain() {
	for range 10 * (len(l.open) + 1) {
		l.now = l.now.Add(2 * time.Minute)
		got, err := l.jobs.Claim(l.t.Context(), lane, 100, l.now, time.Hour)
		l.check(err)
		l.held = append(l.held, got.Jobs...)
		slices.SortFunc(l.held, func(a, b store.Job) int { return int(a.ID) - int(b.ID) })
		var outcomes []store.Outcome
		for _, job := range l.held {
			outcomes = append(outcomes, store.Outcome{Job: job})
			if key := l.open[job.ID]; key != "" {
				l.done[key] = append(l.done[key], job.ID)
			}
			delete(l.open, job.ID)
		}
		_, err = l.jobs.Settle(l.t.Context(), outcomes, l.now)
		l.check(err)
		l.held = nil
	}
	if len(l.open) > 0 {
		l.t.Fatalf("jobs %v are stuck", l.open)
	}
	if depth := l.jobs.Depths()[lane]; depth != 0 {
		l.t.Fatalf("the depth is %d when all are done", depth)
	}
}

// emptyDatabases returns what makes a new SQLite database: a copy of one, since to make the tables takes longer than a test of a model.
func emptyDatabases(t *testing.T) func(t *rapid.T) (url string) {
	t.Helper()
	dir, n := t.TempDir(), 0
	file := func() string { return filepath.Join(dir, strconv.Itoa(n), "holter.db") }
	s, err := store.New(store.Config{URL: "sqlite:" + file(), Cache: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Open(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	empty, err := os.ReadFile(file())
	if err != nil {
		t.Fatal(err)
	}
	return func(t *rapid.T) string {
		n++
		if err := errors.Join(os.Mkdir(filepath.Dir(file()), 0o700), os.WriteFile(file(), empty, 0o600)); err != nil {
			t.Fatal(err)
		}
		return "sqlite:" + file()
	}
}

// TestJobsModel holds the jobs against a model: none is lost, held twice, early, or before another one with its key.
func TestJobsModel(t *testing.T) {
	fresh := emptyDatabases(t)
	rapid.Check(t, func(t *rapid.T) {
		s, err := store.New(store.Config{URL: fresh(t), Cache: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := s.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := &line{
			t: t, jobs: s.Jobs(), now: base, open: make(map[uint64]string), delayed: make(map[uint64]time.Time), waits: make(map[uint64]time.Time),
			done: make(map[string][]uint64),
		}
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": l.enqueue, "enqueue again": l.enqueue, "claim": l.claim, "settle": l.settle, "settle again": l.settle, "time passes": l.pass,
			"crash": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "crash") != 0 {
					t.Skip("not now")
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if err := s.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				l.held = nil
			},
		})
		l.drain()
	})
}
