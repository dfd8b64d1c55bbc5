package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/habit"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// beats has devices beat every 10 s, with a checkpoint after each.
func (l *life) beats(times, devices int) {
	l.Helper()
	for range times {
		l.listen(9 * time.Second)
		l.beat(0, devices)
		l.listen(time.Second) // what is heard at the very instant of a checkpoint is not measured
		if err := l.store.Checkpoint(l.Context(), l.registry); err != nil {
			l.Fatal(err)
		}
	}
}

func (l *life) learned(i int) liveness.Learned {
	l.Helper()
	v, err := l.registry.Learned(name(i))
	if err != nil {
		l.Fatal(err)
	}
	return v
}

// gaps returns the gaps of a device that are kept.
func (l *life) gaps(num uint32) (found []judgement.Gap) {
	l.Helper()
	for g, err := range l.store.Gaps(l.Context(), time.Now().Add(-day), time.Now().Add(day), func(n uint32) bool { return n == num }) {
		if err != nil {
			l.Fatal(err)
		}
		if g.Num == num && g.End <= judgement.EndBye {
			found = append(found, g)
		}
	}
	return found
}

// What was learned of devices and groups is there after a restart, as is a deadline that is in force; a
// standby that has followed has the latter, too. What is damaged is learned anew.
func TestHabitsAreKept(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			cfg := config{URL: db.URL(t), Memory: store.NoMemory, Follower: new(store.Follower)}
			l := begin(t, cfg, base)
			l.pulse()
			l.beat(0, 5)
			l.beats(30, 5)
			if v := l.learned(1); v.Basis.Gaps < habit.Least || v.Deadline == 0 {
				t.Fatalf("nothing was learned: %+v", v)
			}
			l.listen(24 * time.Second) // beyond its limit, after the second in beats
			if err := l.store.Checkpoint(t.Context(), l.registry); err != nil {
				t.Fatal(err)
			}
			l.beat(1, 2)
			applied, err := l.registry.ApplyLearned(name(1), true)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.registry.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			beside, err := cfg.shared(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = beside.Close() }()
			if err := cfg.Follower.Follow(t.Context(), beside); err != nil {
				t.Fatal(err)
			}
			if err := l.store.Finish(t.Context(), l.registry); err != nil {
				t.Fatal(err)
			}
			if gaps := l.gaps(2); len(gaps) != 1 || gaps[0].Length < 24*time.Second || gaps[0].Length > 26*time.Second {
				t.Errorf("of its gaps there are %+v, want one of 25 s", gaps)
			}
			was := l.learned(2)
			shapes := l.registry.Keeper().Shapes()
			l.end()

			for _, f := range []*store.Follower{cfg.Follower, nil} {
				cfg.Follower = f
				next := begin(t, cfg, l.now)
				if next.loaded.Followed != (f != nil) || len(next.loaded.Corrupt) > 0 {
					t.Errorf("loaded %+v", next.loaded)
				}
				if v := next.learned(2); v.Basis.Gaps != was.Basis.Gaps || v.Basis.Interval != was.Basis.Interval {
					t.Errorf("what was learned is %+v, want %+v", v.Basis, was.Basis)
				}
				if v := next.learned(1); v.From != "learned" || v.Policy.Timeout != applied.Policy.Timeout {
					t.Errorf("its deadline is %v from %s, want %v as learned", v.Policy.Timeout, v.From, applied.Policy.Timeout)
				}
				if got := next.registry.Keeper().Shapes(); !slices.Equal(got["site"], shapes["site"]) {
					t.Error("what was learned of its group is not kept")
				}
				next.end()
			}
			testDamagedHabits(t, cfg, l.now)
		})
	}
}

func testDamagedHabits(t *testing.T, cfg config, now time.Time) {
	t.Helper()
	s := newStore(t, cfg)
	reopen(t, s)
	for _, change := range []string{
		"UPDATE habits SET data = (SELECT data FROM shapes WHERE grp = 'site')",
		"UPDATE shapes SET data = (SELECT data FROM pages WHERE page = 0 AND slot = (SELECT MIN(slot) FROM pages))",
	} {
		if err := s.Exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l := begin(t, cfg, now)
	defer l.end()
	texts := make([]string, len(l.loaded.Corrupt))
	for i, err := range l.loaded.Corrupt {
		texts[i] = err.Error()
	}
	if all := strings.Join(texts, "\n"); len(texts) != 3 || !strings.Contains(all, "page 0 of habits") || !strings.Contains(all, `group "site"`) {
		t.Errorf("damage: %s", all)
	}
	if v := l.learned(2); v.Basis.Gaps != 0 {
		t.Errorf("learned from damage: %+v", v)
	}
	l.pulse()
	l.beats(10, 5)
	if err := l.store.Tidy(t.Context(), l.registry); err != nil {
		t.Fatal(err)
	}
	if v := l.learned(2); v.Basis.Gaps == 0 {
		t.Error("nothing is learned anew")
	}
}

// A device that has the number of one that is forgotten inherits nothing from it.
func TestHabitsOfForgottenDevices(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			cfg := config{URL: db.URL(t), Memory: store.NoMemory}
			l := begin(t, cfg, base)
			l.pulse()
			l.beat(0, 2)
			l.beats(30, 2)
			if err := l.store.Tidy(t.Context(), l.registry); err != nil {
				t.Fatal(err)
			}
			if err := l.registry.Forget(name(0)); err != nil {
				t.Fatal(err)
			}
			if err := l.registry.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.beat(7, 8)
			if err := l.registry.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r := rowOf(t, l.store, 1); r.id != name(7) {
				t.Fatalf("number 1 is that of %q", r.id)
			}
			l.end() // killed

			next := begin(t, cfg, l.now)
			defer next.end()
			if v := next.learned(7); v.Basis.Gaps != 0 {
				t.Errorf("it inherits %+v", v.Basis)
			}
			if v := next.learned(1); v.Basis.Gaps == 0 {
				t.Error("what was learned of the other is lost")
			}
		})
	}
}
