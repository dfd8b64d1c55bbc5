package cron_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
)

// scheduling is a model of schedules and of two workers, who may die between any two steps and do not know that of each other.
type scheduling struct {
	t      *rapid.T
	s      *cron.Table
	now    time.Time
	held   map[string][]cron.Run // by worker
	began  map[uint64]int
	done   map[uint64]int
	made   map[uint64]cron.Run
	serial map[uint64]bool // runs that wait for each other
}

const modelLease = time.Minute

func (m *scheduling) check(err error) {
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *scheduling) worker(t *rapid.T) string {
	return rapid.SampledFrom([]string{"one/a", "two/a"}).Draw(t, "worker")
}

func (m *scheduling) fire(t *rapid.T) {
	name := rapid.SampledFrom([]string{"again", "never"}).Draw(t, "schedule")
	sc, err := m.s.Named(t.Context(), name)
	m.check(err)
	f := cron.Firing{Schedule: sc, Last: m.now, Due: m.now.Add(time.Minute), Serial: rapid.Bool().Draw(t, "serial"), Admits: always}
	for range rapid.IntRange(1, 3).Draw(t, "runs") {
		f.Runs = append(f.Runs, cron.FiringRun{Scheduled: m.now, Ready: m.now})
	}
	if rapid.Bool().Draw(t, "twice") { // two nodes see that it is due
		_, err := m.s.Fire(t.Context(), []cron.Firing{{Schedule: sc, Last: m.now, Due: m.now.Add(time.Minute), Admits: always}}, m.now)
		m.check(err)
	}
	fired, err := m.s.Fire(t.Context(), []cron.Firing{f}, m.now)
	m.check(err)
	for _, run := range fired[0].Runs {
		m.made[run.ID], m.serial[run.ID] = run, f.Serial
	}
}

func (m *scheduling) claim(t *rapid.T) {
	worker := m.worker(t)
	got, err := m.s.Claim(t.Context(), kinds, rapid.IntRange(1, 3).Draw(t, "n"), worker, m.now, modelLease)
	m.check(err)
	for i := range got {
		run := got[i].Run
		if m.done[run.ID] > 0 {
			t.Fatalf("run %d was claimed and has ended", run.ID)
		}
		if m.made[run.ID].Once && m.began[run.ID] > 0 {
			t.Fatalf("run %d was begun, and is claimed again", run.ID)
		}
		m.held[worker] = append(m.held[worker], run)
	}
}

// step lets a worker take one of its runs one step further; one that was taken away from it cannot be.
func (m *scheduling) step(t *rapid.T) {
	worker := m.worker(t)
	if len(m.held[worker]) == 0 {
		t.Skip("it has nothing")
	}
	i := rapid.IntRange(0, len(m.held[worker])-1).Draw(t, "run")
	run := &m.held[worker][i]
	if run.State == cron.Claimed {
		ok, err := m.s.Start(t.Context(), run, m.now, modelLease)
		m.check(err)
		if ok {
			m.began[run.ID]++
			if m.made[run.ID].Once && m.began[run.ID] > 1 {
				t.Fatalf("run %d was begun twice", run.ID)
			}
			return
		}
	} else {
		out := rapid.SampledFrom([]cron.State{cron.Done, cron.Failed}).Draw(t, "state")
		ok, err := m.s.Finish(t.Context(), run, cron.Outcome{State: out}, m.now)
		m.check(err)
		if ok {
			m.done[run.ID]++
		}
	}
	m.held[worker] = append(m.held[worker][:i], m.held[worker][i+1:]...)
}

func (m *scheduling) extend(t *rapid.T) {
	m.check(m.s.Extend(t.Context(), m.held[m.worker(t)], m.now.Add(modelLease)))
}

// sweep does what the engine's sweep does. The worker that had the run may be alive, and be late.
func (m *scheduling) sweep(t *rapid.T) {
	left, err := m.s.Abandoned(t.Context(), "three/a", "three/", m.now, m.now.Add(2*modelLease))
	m.check(err)
	for i := range left {
		out := cron.Outcome{State: cron.Idle}
		if left[i].State == cron.Running && left[i].Once {
			out.State = cron.Lost
		}
		ok, err := m.s.Finish(t.Context(), &left[i], out, m.now)
		m.check(err)
		if ok && out.State == cron.Lost {
			m.done[left[i].ID]++
		}
	}
}

// serialHolds makes sure that of the runs of a schedule that wait for each other no two go on at a time.
func (m *scheduling) serialHolds() {
	runs, err := m.s.History(m.t.Context(), cron.RunFilter{States: []cron.State{cron.Claimed, cron.Running}}, 1000)
	m.check(err)
	first := make(map[uint64]uint64)
	for _, run := range slices.Backward(runs) {
		if !m.serial[run.ID] {
			continue
		}
		if other, ok := first[run.Schedule]; ok {
			m.t.Fatalf("runs %d and %d go on at the same time", other, run.ID)
		}
		first[run.Schedule] = run.ID
	}
}

// drain lets a new worker do what is left.
func (m *scheduling) drain() {
	m.held = nil
	for range 4 * (len(m.made) + 1) {
		m.now = m.now.Add(2 * modelLease)
		m.sweep(m.t)
		got, err := m.s.Claim(m.t.Context(), kinds, 100, "three/a", m.now, modelLease)
		m.check(err)
		for i := range got {
			run := &got[i].Run
			ok, err := m.s.Start(m.t.Context(), run, m.now, modelLease)
			m.check(err)
			if m.began[run.ID]++; !ok || m.made[run.ID].Once && m.began[run.ID] > 1 {
				m.t.Fatalf("run %d: begun %d times, %v", run.ID, m.began[run.ID], ok)
			}
			_, err = m.s.Finish(m.t.Context(), run, cron.Outcome{State: cron.Done}, m.now)
			m.check(err)
			m.done[run.ID]++
		}
	}
	for id := range m.made {
		if m.done[id] != 1 {
			m.t.Fatalf("run %d has ended %d times", id, m.done[id])
		}
	}
}

// TestSchedulesModel holds the runs of schedules against a model: none is lost, none ends twice, and none is begun twice that must not be.
func TestSchedulesModel(t *testing.T) {
	fresh := testdb.Copies(t, func(url string) error {
		db, err := sqldb.New(sqldb.Config{URL: url})
		if err == nil {
			err = errors.Join(db.Open(t.Context()), db.Close())
		}
		return err
	})
	testenv.Tries(t, 40, 60)
	rapid.Check(t, func(t *rapid.T) {
		url, err := fresh()
		if err != nil {
			t.Fatal(err)
		}
		s, err := sqldb.New(sqldb.Config{URL: url})
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
		m := &scheduling{
			t: t, s: cron.NewTable(s), now: base, held: make(map[string][]cron.Run), began: make(map[uint64]int), done: make(map[uint64]int),
			made: make(map[uint64]cron.Run), serial: make(map[uint64]bool),
		}
		for name, once := range map[string]bool{"again": false, "never": true} {
			sc := daily(name)
			sc.Once = once
			if ok, err := m.s.Put(t.Context(), sc); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { m.serialHolds() }, "fire": m.fire, "claim": m.claim, "step": m.step, "step again": m.step, "extend": m.extend, "sweep": m.sweep,
			"time passes": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			},
			"crash": func(t *rapid.T) { delete(m.held, m.worker(t)) },
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "restart") != 0 {
					t.Skip("not now")
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if err := s.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
		})
		m.drain()
	})
}
