package cron_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

// base is an instant that a column can hold.
var base = time.Unix(0, time.Now().Add(-24*time.Hour).UnixNano())

// openTable returns the schedules in an empty database.
func openTable(tb testing.TB, kind testdb.Database) *cron.Table {
	tb.Helper()
	return cron.NewTable(testsqldb.Open(tb, sqldb.Config{URL: kind.URL(tb)}))
}

// daily is a schedule to be.
func daily(name string) cron.Schedule {
	return cron.Schedule{
		Name: name, Kind: "webhook", Spec: "0 3 * * *", Zone: "Europe/Berlin", Settings: []byte(`{"a":"?'\\"}`), Overlap: -1, Misfire: 3,
		Jitter: time.Second, Once: true, Began: base, Last: base, Due: base.Add(time.Hour), Claim: 1,
	}
}

// putSchedule makes a schedule, and returns what is kept of it.
func putSchedule(tb testing.TB, s *cron.Table, sc cron.Schedule) cron.Schedule {
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
func fireAt(tb testing.TB, s *cron.Table, sc cron.Schedule, at time.Time, change func(*cron.Firing)) cron.Fired {
	tb.Helper()
	f := cron.Firing{Schedule: sc, Last: at, Due: at.Add(time.Hour), Admits: always, Runs: []cron.FiringRun{{Scheduled: at, Ready: at}}}
	if change != nil {
		change(&f)
	}
	fired, err := s.Fire(tb.Context(), []cron.Firing{f}, at)
	if err != nil {
		tb.Fatal(err)
	}
	return fired[0]
}

var kinds = []string{"webhook"}

func TestSchedules(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run(db.Name, func(t *testing.T) {
			s := openTable(t, db)
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
			if err := s.Delete(ctx, "nightly"); !errors.Is(err, cron.ErrUnknown) {
				t.Errorf("Delete of what is not there: %v", err)
			}
			if _, err := s.Named(ctx, "nightly\x00"); !errors.Is(err, cron.ErrUnknown) {
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
	for _, db := range testdb.Databases() {
		t.Run(db.Name, func(t *testing.T) {
			s := openTable(t, db)
			ctx := t.Context()
			sc := putSchedule(t, s, daily("nightly"))
			now := base.Add(time.Hour)
			agenda, err := cron.AgendaOf(ctx, s, now, 10, kinds)
			if err != nil || len(agenda.Due) != 1 || agenda.Ready[0] || !agenda.Next.IsZero() {
				t.Fatalf("agenda %+v, %v", agenda, err)
			}
			fired := fireAt(t, s, sc, now, nil)
			if len(fired.Runs) != 1 || fired.Runs[0].Number != 1 || fired.Runs[0].State != cron.Idle || !fired.Runs[0].Once {
				t.Fatalf("fired %+v", fired)
			}
			if again := fireAt(t, s, sc, now, nil); !again.Stale || len(again.Runs) > 0 {
				t.Errorf("fired again: %+v", again)
			}
			if agenda, err = cron.AgendaOf(ctx, s, now, 10, kinds); err != nil || len(agenda.Due) != 0 || !agenda.Ready[0] || !agenda.Next.Equal(now.Add(time.Hour)) {
				t.Errorf("agenda %+v, %v", agenda, err)
			}
			if got, err := s.Claim(ctx, []string{"command"}, 5, "me", now, time.Minute); err != nil || len(got) != 0 {
				t.Errorf("claimed %+v, %v", got, err)
			}
			got, err := s.Claim(ctx, kinds, 5, "me", now, time.Minute)
			if err != nil || len(got) != 1 || got[0].Of.Name != "nightly" || got[0].Owner != "me" {
				t.Fatalf("claimed %+v, %v", got, err)
			}
			run := got[0].Run
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
			if err := s.Extend(ctx, []cron.Run{run}, now.Add(time.Hour)); err != nil {
				t.Error(err)
			}
			if left, err := s.Abandoned(ctx, "me", "m", now.Add(2*time.Minute), now.Add(2*time.Hour)); err != nil || len(left) != 0 {
				t.Errorf("left %+v, %v", left, err)
			}
			for what, left := range map[string]func() ([]cron.Run, error){
				"the lease has ended": func() ([]cron.Run, error) {
					return s.Abandoned(ctx, "me", "m", now.Add(time.Hour), now.Add(2*time.Hour))
				},
				"the clock was set back": func() ([]cron.Run, error) { return s.Abandoned(ctx, "me", "m", now.Add(-time.Hour), now) },
				"the owner lives again":  func() ([]cron.Run, error) { return s.Abandoned(ctx, "mine", "m", now, now.Add(2*time.Hour)) },
			} {
				if got, err := left(); err != nil || len(got) != 1 || got[0].ID != run.ID {
					t.Errorf("%s: left %+v, %v", what, got, err)
				}
			}
			out := cron.Outcome{State: cron.Failed, Code: 3, Output: strings.Repeat("x", 1<<20) + "\x00\xff", Error: "no\x00"}
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
			runs, err := s.History(ctx, cron.RunFilter{Name: "nightly", States: []cron.State{cron.Failed}, Before: run.ID + 1}, 10)
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
	for _, db := range testdb.Databases() {
		t.Run(db.Name, func(t *testing.T) {
			s := openTable(t, db)
			ctx := t.Context()
			sc := putSchedule(t, s, daily("nightly"))
			now := base.Add(time.Hour)
			next := func(change func(*cron.Firing)) cron.Fired {
				t.Helper()
				now = now.Add(time.Minute)
				var err error
				if sc, err = s.Named(t.Context(), "nightly"); err != nil {
					t.Fatal(err)
				}
				return fireAt(t, s, sc, now, change)
			}
			serial := func(f *cron.Firing) { f.Serial = true }
			next(serial)
			for range 3 {
				if f := next(func(f *cron.Firing) { f.Admits = alone }); f.Skipped != 1 || len(f.Runs) != 0 {
					t.Errorf("fired %+v", f)
				}
			}
			if f := next(func(f *cron.Firing) { f.Admits, f.Manual = alone, true }); f.Skipped != 1 || f.Stale {
				t.Errorf("a manual run: %+v", f)
			}
			next(func(f *cron.Firing) { // two that wait for each other
				f.Serial = true
				f.Runs = append(f.Runs, cron.FiringRun{Scheduled: now, Ready: now})
			})
			runs, err := s.History(ctx, cron.RunFilter{}, 10)
			if err != nil || len(runs) != 4 || runs[2].State != cron.Skipped || runs[2].Attempt != 3 || runs[0].Number != 3 {
				t.Errorf("history %+v, %v", runs, err)
			}
			for want := uint64(1); want <= 3; want++ {
				got, err := s.Claim(ctx, kinds, 5, "me", now, time.Minute)
				if err != nil || len(got) != 1 || got[0].Number != want {
					t.Fatalf("claimed %+v, %v, want number %d alone", got, err, want)
				}
				run := got[0].Run
				if want == 2 { // given back, it is the first again
					if ok, err := s.Finish(ctx, &run, cron.Outcome{State: cron.Idle}, now); !ok || err != nil {
						t.Error(ok, err)
					}
					if got, err = s.Claim(ctx, kinds, 5, "me", now, time.Minute); err != nil || len(got) != 1 || got[0].Number != 2 {
						t.Fatalf("claimed %+v, %v", got, err)
					}
					run = got[0].Run
				}
				if ok, err := s.Start(ctx, &run, now, time.Minute); !ok || err != nil {
					t.Error(ok, err)
				}
				if ok, err := s.Finish(ctx, &run, cron.Outcome{State: cron.Done}, now); !ok || err != nil {
					t.Error(ok, err)
				}
			}
		})
	}
}

// A run that is to be a little later waits, but not for a clock that was set back.
func TestScheduleReady(t *testing.T) {
	s := openTable(t, testdb.Databases()[0])
	ctx := t.Context()
	now := base.Add(time.Hour)
	fireAt(t, s, putSchedule(t, s, daily("nightly")), now, func(f *cron.Firing) { f.Runs[0].Ready = now.Add(time.Second) })
	if a, err := cron.AgendaOf(ctx, s, now, 10, kinds); err != nil || a.Ready[0] || !a.Next.Equal(now.Add(time.Second)) {
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
	s := openTable(t, testdb.Databases()[0])
	ctx := t.Context()
	putSchedule(t, s, daily("nightly"))
	for i := range 105 {
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
		if ok, err := s.Finish(ctx, &got[0].Run, cron.Outcome{State: cron.Done}, now); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	runs, err := s.History(ctx, cron.RunFilter{Name: "nightly"}, 1000)
	if err != nil || len(runs) != 101 || runs[0].Number != 105 {
		t.Errorf("%d runs are kept, %v", len(runs), err)
	}
}

// A store that was overtaken changes nothing.
func TestSchedulesFenced(t *testing.T) {
	db := testsqldb.Open(t, sqldb.Config{URL: testdb.SQLite(t)})
	s := cron.NewTable(db)
	sc := putSchedule(t, s, daily("nightly"))
	err := db.WriteShared(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE meta SET fence = fence + 1")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fire(t.Context(), []cron.Firing{{Schedule: sc, Admits: always}}, base); !errors.Is(err, sqldb.ErrFenced) {
		t.Errorf("Fire = %v", err)
	}
	if _, err := s.Put(t.Context(), daily("other")); !errors.Is(err, sqldb.ErrFenced) {
		t.Errorf("Put = %v", err)
	}
}

// Instants that no column can hold.
var (
	longAgo  = time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)
	farAhead = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// isFar reports whether an instant is kept as the last one that can be, or the first.
func isFar(t, like time.Time) bool {
	if like.After(time.Now()) {
		return t.Year() == 2262
	}
	return t.Year() == 1677
}

// A schedule whose instants cannot be kept never is due, and one that is due in 1500 is due now.
func TestFarSchedules(t *testing.T) {
	for _, db := range testdb.Databases() {
		s := openTable(t, db)
		sc := daily("far")
		sc.Began, sc.Last, sc.Due = longAgo, longAgo, longAgo
		sc = putSchedule(t, s, sc)
		if !isFar(sc.Began, longAgo) || !isFar(sc.Last, longAgo) || !isFar(sc.Due, longAgo) {
			t.Errorf("schedule %+v", sc)
		}
		agenda, err := cron.AgendaOf(t.Context(), s, base, 10, kinds)
		if err != nil || len(agenda.Due) != 1 {
			t.Fatalf("agenda %+v, %v", agenda, err)
		}
		fired, err := s.Fire(t.Context(), []cron.Firing{{
			Schedule: sc, Last: base, Due: farAhead, Admits: func(int, int) bool { return true },
			Runs: []cron.FiringRun{{Scheduled: longAgo, Ready: longAgo}},
		}}, base)
		if err != nil || len(fired[0].Runs) != 1 || !isFar(fired[0].Runs[0].Scheduled, longAgo) {
			t.Fatalf("fired %+v, %v", fired, err)
		}
		if agenda, err = cron.AgendaOf(t.Context(), s, base, 10, kinds); err != nil || len(agenda.Due) != 0 || !agenda.Ready[0] || !agenda.Next.IsZero() {
			t.Errorf("then the agenda is %+v, %v", agenda, err)
		}
		for _, now := range []time.Time{farAhead, longAgo, {}} { // nobody's clock shows that, and nothing comes of it
			if _, err := cron.AgendaOf(t.Context(), s, now, 10, kinds); err != nil {
				t.Errorf("agenda of %v: %v", now, err)
			}
		}
	}
}

// A wall clock that is a month ahead for a while makes no run too old.
func TestForgetClockAhead(t *testing.T) {
	const day = 24 * time.Hour
	ahead := time.Duration(0)
	s := cron.NewTable(testsqldb.Open(t, sqldb.Config{URL: testdb.SQLite(t), Wall: func() time.Time { return time.Now().Add(ahead) }}))
	fireAt(t, s, putSchedule(t, s, daily("nightly")), base.Add(time.Hour), nil)
	claimed, err := s.Claim(t.Context(), kinds, 1, "me", base.Add(time.Hour), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Finish(t.Context(), &claimed[0].Run, cron.Outcome{State: cron.Done}, base.Add(time.Hour)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, ahead = range []time.Duration{30 * day, 0, -20 * 365 * day, 0} {
		if n, err := s.Forget(t.Context(), 10*day, time.Now().Add(ahead)); n != 0 || err != nil {
			t.Errorf("%v ahead: %d runs are deleted, %v", ahead, n, err)
		}
	}
}
