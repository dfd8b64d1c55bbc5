package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/sqldb"
	"github.com/holter-iot/holter/store"
)

// daily is a schedule to be.
func daily(name string) store.Schedule {
	return store.Schedule{
		Name: name, Kind: "webhook", Spec: "0 3 * * *", Zone: "Europe/Berlin", Settings: []byte(`{"a":"?'\\"}`), Overlap: -1, Misfire: 3,
		Jitter: time.Second, Once: true, Began: base, Last: base, Due: base.Add(time.Hour), Claim: 1,
	}
}

// putSchedule makes a schedule, and returns what is kept of it.
func putSchedule(tb testing.TB, s *store.Schedules, sc store.Schedule) store.Schedule {
	tb.Helper()
	if ok, err := s.Put(tb.Context(), sc); err != nil || !ok {
		tb.Fatalf("Put = %v, %v", ok, err)
	}
	kept, err := s.Named(tb.Context(), sc.Name)
	if err != nil {
		tb.Fatal(err)
	}
	return kept
}

func always(int, int) bool { return true }

func alone(running, waiting int) bool { return running+waiting == 0 }

// fireAt makes one run of a schedule.
func fireAt(tb testing.TB, s *store.Schedules, sc store.Schedule, at time.Time, change func(*store.Firing)) store.Fired {
	tb.Helper()
	f := store.Firing{Schedule: sc, Last: at, Due: at.Add(time.Hour), Admits: always, Runs: []store.FiringRun{{Scheduled: at, Ready: at}}}
	if change != nil {
		change(&f)
	}
	fired, err := s.Fire(tb.Context(), []store.Firing{f}, at)
	if err != nil {
		tb.Fatal(err)
	}
	return fired[0]
}

var kinds = []string{"webhook"}

func TestSchedules(t *testing.T) {
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) {
			st, _ := open(t, config{URL: db.url(t)})
			s := st.Schedules()
			ctx := t.Context()
			kept := putSchedule(t, s, daily("nightly"))
			want := daily("nightly")
			want.Num = kept.Num
			if fmt.Sprintf("%+v", kept) != fmt.Sprintf("%+v", want) || kept.Num == 0 {
				t.Errorf("kept\n%+v, want\n%+v", kept, want)
			}
			if ok, err := s.Put(ctx, daily("nightly")); ok || err != nil {
				t.Errorf("a second one with the name = %v, %v", ok, err)
			}
			if _, err := s.Put(ctx, daily("a b")); !errors.Is(err, store.ErrBadName) {
				t.Errorf("a bad name: %v", err)
			}
			far := daily("far")
			far.Due = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) // beyond what is kept: none
			if far = putSchedule(t, s, far); !far.Due.IsZero() {
				t.Errorf("far: kept %+v", far)
			}
			if err := s.Delete(ctx, "far"); err != nil {
				t.Error(err)
			}
			changed := kept
			changed.Spec, changed.Due = "@daily", time.Time{}
			if ok, err := s.Put(ctx, changed); !ok || err != nil {
				t.Errorf("change = %v, %v", ok, err)
			}
			if ok, err := s.Put(ctx, changed); ok || err != nil {
				t.Errorf("a change of what was changed since = %v, %v", ok, err)
			}
			list, err := s.List(ctx)
			if err != nil || len(list) != 1 || list[0].Spec != "@daily" || !list[0].Due.IsZero() || list[0].Claim != kept.Claim+1 {
				t.Errorf("list %+v, %v", list, err)
			}
			if ahead, err := s.Ahead(ctx, base.Add(-time.Second)); err != nil || len(ahead) != 1 {
				t.Errorf("ahead %v, %v", ahead, err)
			}
			if err := s.Delete(ctx, "nightly"); err != nil {
				t.Error(err)
			}
			if err := s.Delete(ctx, "nightly"); !errors.Is(err, store.ErrUnknown) {
				t.Errorf("Delete of what is not there: %v", err)
			}
			if _, err := s.Named(ctx, "nightly\x00"); !errors.Is(err, store.ErrUnknown) {
				t.Errorf("Named: %v", err)
			}
			if again := putSchedule(t, s, daily("nightly")); again.Num <= kept.Num {
				t.Errorf("number %d was given again", again.Num)
			}
		})
	}
}

// A run goes its way step by step, and nobody without its claim can take it further.
func TestScheduleRun(t *testing.T) {
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) {
			st, _ := open(t, config{URL: db.url(t)})
			s := st.Schedules()
			ctx := t.Context()
			sc := putSchedule(t, s, daily("nightly"))
			now := base.Add(time.Hour)
			agenda, err := s.Agenda(ctx, now, 10, kinds)
			if err != nil || len(agenda.Due) != 1 || agenda.Ready[0] || !agenda.Next.IsZero() {
				t.Fatalf("agenda %+v, %v", agenda, err)
			}
			fired := fireAt(t, s, sc, now, nil)
			if len(fired.Runs) != 1 || fired.Runs[0].Number != 1 || fired.Runs[0].State != store.ScheduleIdle || !fired.Runs[0].Once {
				t.Fatalf("fired %+v", fired)
			}
			if again := fireAt(t, s, sc, now, nil); !again.Stale || len(again.Runs) > 0 {
				t.Errorf("fired again: %+v", again)
			}
			if agenda, err = s.Agenda(ctx, now, 10, kinds); err != nil || len(agenda.Due) != 0 || !agenda.Ready[0] || !agenda.Next.Equal(now.Add(time.Hour)) {
				t.Errorf("agenda %+v, %v", agenda, err)
			}
			if got, err := s.Claim(ctx, []string{"command"}, 5, "me", now, time.Minute); err != nil || len(got) != 0 {
				t.Errorf("claimed %+v, %v", got, err)
			}
			got, err := s.Claim(ctx, kinds, 5, "me", now, time.Minute)
			if err != nil || len(got) != 1 || got[0].Of.Name != "nightly" || got[0].Owner != "me" {
				t.Fatalf("claimed %+v, %v", got, err)
			}
			run := got[0].ScheduleRun
			if more, err := s.Claim(ctx, kinds, 5, "me", now, time.Minute); err != nil || len(more) != 0 {
				t.Errorf("claimed twice: %+v, %v", more, err)
			}
			stranger := run
			stranger.Claim--
			if ok, err := s.Start(ctx, &stranger, now, time.Minute); ok || err != nil {
				t.Errorf("a stranger begins it: %v, %v", ok, err)
			}
			if ok, err := s.Start(ctx, &run, now.Add(time.Second), time.Minute); !ok || err != nil {
				t.Errorf("Start = %v, %v", ok, err)
			}
			if begun, err := s.Begun(ctx, "webhook", now); err != nil || len(begun) != 1 || begun[0].ID != run.ID {
				t.Errorf("begun %+v, %v", begun, err)
			}
			if err := s.Extend(ctx, []store.ScheduleRun{run}, now.Add(time.Hour)); err != nil {
				t.Error(err)
			}
			if left, err := s.Abandoned(ctx, "me", "m", now.Add(2*time.Minute), now.Add(2*time.Hour)); err != nil || len(left) != 0 {
				t.Errorf("left %+v, %v", left, err)
			}
			for what, left := range map[string]func() ([]store.ScheduleRun, error){
				"the lease has ended": func() ([]store.ScheduleRun, error) {
					return s.Abandoned(ctx, "me", "m", now.Add(time.Hour), now.Add(2*time.Hour))
				},
				"the clock was set back": func() ([]store.ScheduleRun, error) { return s.Abandoned(ctx, "me", "m", now.Add(-time.Hour), now) },
				"the owner lives again":  func() ([]store.ScheduleRun, error) { return s.Abandoned(ctx, "mine", "m", now, now.Add(2*time.Hour)) },
			} {
				if got, err := left(); err != nil || len(got) != 1 || got[0].ID != run.ID {
					t.Errorf("%s: left %+v, %v", what, got, err)
				}
			}
			out := store.ScheduleOutcome{State: store.ScheduleFailed, Code: 3, Output: strings.Repeat("x", 1<<20) + "\x00\xff", Error: "no\x00"}
			if ok, err := s.Finish(ctx, &run, out, now.Add(time.Minute)); !ok || err != nil {
				t.Errorf("Finish = %v, %v", ok, err)
			}
			if ok, err := s.Finish(ctx, &run, out, now.Add(time.Minute)); ok || err != nil {
				t.Errorf("Finish again = %v, %v", ok, err)
			}
			for at, want := range map[time.Duration]int{59 * time.Second: 1, time.Minute: 0} {
				if begun, err := s.Begun(ctx, "webhook", now.Add(at)); err != nil || len(begun) != want {
					t.Errorf("begun and not ended after %v: %+v, %v", at, begun, err)
				}
			}
			runs, err := s.History(ctx, store.ScheduleRunFilter{Name: "nightly", States: []store.ScheduleState{store.ScheduleFailed}, Before: run.ID + 1}, 10)
			if err != nil || len(runs) != 1 || runs[0].Code != 3 || len(runs[0].Output) != 4096 || runs[0].Attempt != 1 || !runs[0].Ended.Equal(now.Add(time.Minute)) ||
				!runs[0].Started.Equal(now.Add(time.Second)) {
				t.Errorf("history %+v, %v", runs, err)
			}
			if n, err := s.Forget(ctx, time.Minute, now.Add(time.Hour)); n != 1 || err != nil {
				t.Errorf("Forget = %d, %v", n, err)
			}
		})
	}
}

// What overlaps is decided by the runs that there are; what was skipped is noted once.
func TestScheduleOverlap(t *testing.T) {
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) {
			st, _ := open(t, config{URL: db.url(t)})
			s := st.Schedules()
			ctx := t.Context()
			sc := putSchedule(t, s, daily("nightly"))
			now := base.Add(time.Hour)
			next := func(change func(*store.Firing)) store.Fired {
				t.Helper()
				now = now.Add(time.Minute)
				var err error
				if sc, err = s.Named(t.Context(), "nightly"); err != nil {
					t.Fatal(err)
				}
				return fireAt(t, s, sc, now, change)
			}
			serial := func(f *store.Firing) { f.Serial = true }
			next(serial)
			for range 3 {
				if f := next(func(f *store.Firing) { f.Admits = alone }); f.Skipped != 1 || len(f.Runs) != 0 {
					t.Errorf("fired %+v", f)
				}
			}
			if f := next(func(f *store.Firing) { f.Admits, f.Manual = alone, true }); f.Skipped != 1 || f.Stale {
				t.Errorf("a manual run: %+v", f)
			}
			next(func(f *store.Firing) { // two that wait for each other
				f.Serial = true
				f.Runs = append(f.Runs, store.FiringRun{Scheduled: now, Ready: now})
			})
			runs, err := s.History(ctx, store.ScheduleRunFilter{}, 10)
			if err != nil || len(runs) != 4 || runs[2].State != store.ScheduleSkipped || runs[2].Attempt != 3 || runs[0].Number != 3 {
				t.Errorf("history %+v, %v", runs, err)
			}
			for want := uint64(1); want <= 3; want++ {
				got, err := s.Claim(ctx, kinds, 5, "me", now, time.Minute)
				if err != nil || len(got) != 1 || got[0].Number != want {
					t.Fatalf("claimed %+v, %v, want number %d alone", got, err, want)
				}
				run := got[0].ScheduleRun
				if want == 2 { // given back, it is the first again
					if ok, err := s.Finish(ctx, &run, store.ScheduleOutcome{State: store.ScheduleIdle}, now); !ok || err != nil {
						t.Error(ok, err)
					}
					if got, err = s.Claim(ctx, kinds, 5, "me", now, time.Minute); err != nil || len(got) != 1 || got[0].Number != 2 {
						t.Fatalf("claimed %+v, %v", got, err)
					}
					run = got[0].ScheduleRun
				}
				if ok, err := s.Start(ctx, &run, now, time.Minute); !ok || err != nil {
					t.Error(ok, err)
				}
				if ok, err := s.Finish(ctx, &run, store.ScheduleOutcome{State: store.ScheduleDone}, now); !ok || err != nil {
					t.Error(ok, err)
				}
			}
		})
	}
}

// A run that is to be a little later waits, but not for a clock that was set back.
func TestScheduleReady(t *testing.T) {
	st, _ := open(t, config{URL: databases[0].url(t)})
	s := st.Schedules()
	ctx := t.Context()
	now := base.Add(time.Hour)
	fireAt(t, s, putSchedule(t, s, daily("nightly")), now, func(f *store.Firing) { f.Runs[0].Ready = now.Add(time.Second) })
	if a, err := s.Agenda(ctx, now, 10, kinds); err != nil || a.Ready[0] || !a.Next.Equal(now.Add(time.Second)) {
		t.Errorf("agenda %+v, %v", a, err)
	}
	if got, err := s.Claim(ctx, kinds, 5, "me", now, time.Minute); err != nil || len(got) != 0 {
		t.Errorf("claimed %+v, %v", got, err)
	}
	if got, err := s.Claim(ctx, kinds, 5, "me", now.Add(-time.Hour), time.Minute); err != nil || len(got) != 1 {
		t.Errorf("claimed %+v, %v", got, err)
	}
}

// Of a schedule that runs often, only the latest runs are kept.
func TestScheduleHistory(t *testing.T) {
	st, _ := open(t, config{URL: databases[0].url(t)})
	s := st.Schedules()
	ctx := t.Context()
	putSchedule(t, s, daily("nightly"))
	for i := range 120 {
		sc, err := s.Named(ctx, "nightly")
		if err != nil {
			t.Fatal(err)
		}
		now := base.Add(time.Duration(i) * time.Hour)
		fireAt(t, s, sc, now, nil)
		got, err := s.Claim(ctx, kinds, 1, "me", now, time.Minute)
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		if ok, err := s.Finish(ctx, &got[0].ScheduleRun, store.ScheduleOutcome{State: store.ScheduleDone}, now); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	runs, err := s.History(ctx, store.ScheduleRunFilter{Name: "nightly"}, 1000)
	if err != nil || len(runs) != 101 || runs[0].Number != 120 {
		t.Errorf("%d runs are kept, %v", len(runs), err)
	}
}

// The clock is that of the database, which in the tests is that of this machine.
func TestClock(t *testing.T) {
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) {
			st, _ := open(t, config{URL: db.url(t)})
			before := time.Now()
			now, err := st.Clock(t.Context())
			if after := time.Now(); err != nil || now.Before(before.Add(-2*time.Millisecond)) || now.After(after.Add(2*time.Millisecond)) {
				t.Errorf("Clock = %v, %v, want %v to %v", now, err, before, after)
			}
		})
	}
}

// A store that was overtaken changes nothing.
func TestSchedulesFenced(t *testing.T) {
	st, _ := open(t, config{URL: databases[0].url(t)})
	s := st.Schedules()
	sc := putSchedule(t, s, daily("nightly"))
	if err := st.Exec(t.Context(), "UPDATE meta SET fence = fence + 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fire(t.Context(), []store.Firing{{Schedule: sc, Admits: always}}, base); !errors.Is(err, sqldb.ErrFenced) {
		t.Errorf("Fire = %v", err)
	}
	if _, err := s.Put(t.Context(), daily("other")); !errors.Is(err, sqldb.ErrFenced) {
		t.Errorf("Put = %v", err)
	}
}
