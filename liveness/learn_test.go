package liveness_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/habit"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
	"github.com/holter-iot/holter/timer"
)

// learner is a rig whose registry learns.
type learner struct {
	*rig

	pulses time.Duration // how often its source is pulsed
	heard  []keep.Heard
	gaps   []judgement.Gap
	since  time.Duration // since the last checkpoint
}

// coarse is a source that need not be pulsed often, so that a test can let days pass.
func coarse() liveness.SourceConfig { return liveness.SourceConfig{MaxGap: 4 * unit} }

func inLearner(t *testing.T, fleet liveness.Config, f func(l *learner)) {
	t.Helper()
	inRig(t, fleet, coarse(), func(r *rig) {
		r.registry.Keeper().RecordGaps()
		f(&learner{rig: r, pulses: 3 * unit})
	})
}

// checkpoint takes what is learned and recorded, as a store does.
func (l *learner) checkpoint() {
	_, l.heard = l.registry.Keeper().Snapshot(l.heard)
	gaps, _, _ := l.registry.Keeper().TakeGaps()
	l.gaps = append(l.gaps, gaps...)
	l.since = 0
}

// pass lets time pass, with a checkpoint about every five units.
func (l *learner) pass(d time.Duration) {
	for ; d > 0; d -= l.pulses {
		time.Sleep(min(d, l.pulses))
		l.pulse()
		if l.since += min(d, l.pulses); l.since >= 5*unit {
			l.checkpoint()
		}
	}
}

// beat lets the device a beat n times, after a gap each.
func (l *learner) beat(n int, gap time.Duration) {
	l.Helper()
	for range n {
		l.pass(gap)
		if !l.sessions["a"].Beat(l.now()) {
			l.Fatal("Beat = false")
		}
	}
}

func (l *learner) learned(id string) liveness.Learned {
	l.Helper()
	v, err := l.registry.Learned(id)
	if err != nil {
		l.Fatal(err)
	}
	return v
}

// recorded returns the gaps that were recorded, without other records.
func (l *learner) recorded() (gaps []judgement.Gap) {
	l.checkpoint()
	for _, g := range l.gaps {
		if g.End <= judgement.EndBye {
			gaps = append(gaps, g)
		}
	}
	l.gaps = nil
	return gaps
}

// A gap beyond the limit is recorded to the tick, however many heartbeats follow before the checkpoint.
func TestGapIsExact(t *testing.T) {
	inLearner(t, liveness.Config{Policy: liveness.Policy{Timeout: 60 * unit}}, func(l *learner) {
		l.open("a")
		l.beat(20, 20*unit)
		if gaps := l.recorded(); len(gaps) != 0 {
			t.Errorf("recorded %+v of a regular device", gaps)
		}
		for _, length := range []time.Duration{45 * unit, 59*unit + unit/2, 61 * unit, 200 * unit} {
			last := l.device("a").Last
			l.beat(1, length)
			l.beat(3, unit)
			gaps := l.recorded()
			if len(gaps) != 1 || gaps[0].Length != length || gaps[0].Start != last || gaps[0].End != judgement.EndBeat || gaps[0].Source != "edge" {
				t.Errorf("a gap of %g units after %v was recorded as %+v", inUnits(length), last, gaps)
			}
			l.beat(5, 20*unit)
		}
	})
}

func TestWhatEndsAGap(t *testing.T) {
	inLearner(t, liveness.Config{Policy: liveness.Policy{Timeout: 60 * unit, CloseGrace: 5 * unit}}, func(l *learner) {
		l.open("a")
		l.beat(20, 20*unit)
		tests := []struct {
			name string
			do   func()
			want judgement.Gap
		}{
			{"new session", func() { l.pass(100 * unit); l.open("a") }, judgement.Gap{Length: 100 * unit, End: judgement.EndSession}},
			{"closed", func() {
				l.pass(10 * unit)
				l.sessions["a"].Close(l.now(), liveness.Closed)
				l.pass(70 * unit)
				l.open("a")
			}, judgement.Gap{Length: 80 * unit, End: judgement.EndSession, Closed: 10 * unit, Reason: liveness.Closed}},
			{"closed after the verdict", func() {
				l.pass(70 * unit)
				l.sessions["a"].Close(l.now(), liveness.Closed)
				l.pass(10 * unit)
				l.open("a")
			}, judgement.Gap{Length: 80 * unit, End: judgement.EndSession, Closed: 70 * unit, Reason: liveness.Closed}},
			{"closed because of the verdict", func() {
				s := l.openAs("a", liveness.Hello{}, new(peer))
				l.pass(70 * unit)
				s.Close(l.now(), liveness.Closed)
				l.pass(10 * unit)
				l.open("a")
			}, judgement.Gap{Length: 80 * unit, End: judgement.EndSession, CutOff: true}},
			{"goodbye", func() { l.pass(50 * unit); l.sessions["a"].Bye(l.now()) }, judgement.Gap{Length: 50 * unit, End: judgement.EndBye}},
			{"after a goodbye", func() { l.pass(500 * unit); l.open("a") }, judgement.Gap{}},
			{"asleep", func() {
				if _, err := l.sessions["a"].Sleep(l.now(), 100*unit); err != nil {
					t.Fatal(err)
				}
				l.beat(1, 150*unit)
			}, judgement.Gap{Length: 150 * unit, Slept: 100 * unit}},
			{"woken in time", func() {
				if _, err := l.sessions["a"].Sleep(l.now(), 100*unit); err != nil {
					t.Fatal(err)
				}
				l.beat(1, 100*unit)
			}, judgement.Gap{}},
		}
		for _, tt := range tests {
			tt.do()
			var got judgement.Gap
			switch gaps := l.recorded(); {
			case len(gaps) > 1:
				t.Errorf("%s: %+v", tt.name, gaps)
				continue
			case len(gaps) == 1:
				got = gaps[0]
			}
			want := tt.want
			if got.Length != want.Length || got.End != want.End || got.Closed != want.Closed || got.Reason != want.Reason || got.Slept != want.Slept || got.CutOff != want.CutOff {
				t.Errorf("%s: recorded %+v, want %+v", tt.name, got, want)
			}
		}
	})
}

// A device of which no gap was learned has a limit, too, once it is silent.
func TestLimitWithoutLearnedGap(t *testing.T) {
	inLearner(t, liveness.Config{Policy: liveness.Policy{Timeout: 60 * unit}}, func(l *learner) {
		l.open("a")
		l.pass(90 * unit)
		l.registry.Operator().Silences(func(s *operate.Silence) {
			if s.Limit == 0 || s.Limit > 30*unit {
				t.Errorf("Limit of %s = %v, want up to half of its timeout", s.ID, s.Limit)
			}
		})
	})
}

// A device that is noticed since it is silent for long is judged as ever, and loses no heartbeat.
func TestWatchedDeviceIsJudged(t *testing.T) {
	inLearner(t, liveness.Config{Policy: liveness.Policy{Timeout: 60 * unit}}, func(l *learner) {
		l.open("a")
		l.beat(20, 20*unit)
		l.beat(1, 50*unit)
		l.pass(59 * unit)
		l.wantState("a", liveness.Online)
		l.pass(2 * unit)
		l.wantState("a", liveness.Offline)
		if v := l.device("a"); v.HeardSilence != 61*unit {
			t.Errorf("heard silence of %g units, want 61", inUnits(v.HeardSilence))
		}
	})
}

func TestDeafGapsAreNotLearned(t *testing.T) {
	inLearner(t, liveness.Config{Policy: liveness.Policy{Timeout: 60 * unit}}, func(l *learner) {
		l.open("a")
		l.beat(50, 20*unit)
		l.checkpoint()
		before := l.learned("a").Basis
		for range 20 {
			l.pass(10 * unit)
			l.deafen(100 * unit)
			l.beat(1, 35*unit)
			l.pass(5 * unit)
			l.cut(100 * unit)
			l.beat(1, 35*unit)
		}
		if after := l.learned("a").Basis; after.Longest != before.Longest || after.Gaps != before.Gaps {
			t.Errorf("learned %+v after deaf times, %+v before", after, before)
		}
	})
}

// What a device does in maintenance is no habit, nor is a silence in which some was.
func TestMaintenanceTeachesNothing(t *testing.T) {
	inLearner(t, liveness.Config{Policy: liveness.Policy{Timeout: 1000 * unit}}, func(l *learner) {
		l.open("a")
		gaps := func(want int) {
			t.Helper()
			l.checkpoint()
			v, err := l.registry.Learned("a")
			if err != nil || v.Basis.Gaps != want {
				t.Errorf("%d gaps are learned, %v, want %d", v.Basis.Gaps, err, want)
			}
		}
		l.beat(6, 20*unit)
		gaps(5) // the first is measured from an instant that is not known well
		maintain := func(on bool) { l.admit(l.registry.SetMaintenance("a", on)) }
		maintain(true)
		l.beat(5, 100*unit)
		gaps(5)
		l.pass(30 * unit)
		maintain(false)
		l.beat(1, 30*unit)
		gaps(5)
		l.pass(30 * unit) // a long silence, which is recorded
		maintain(true)
		l.pass(unit)
		maintain(false)
		l.beat(1, 600*unit)
		gaps(5)
		l.beat(3, 20*unit)
		gaps(8)
	})
}

// A deadline that is in force follows the longest that may be, at once.
func TestLearnedFollowsItsBound(t *testing.T) {
	inLearner(t, liveness.Config{Policy: liveness.Policy{Timeout: 1000 * unit, Learn: judgement.LearnApply}}, func(l *learner) {
		l.open("a")
		l.beat(100, 60*unit)
		v, err := l.registry.ApplyLearned("a", true)
		if err != nil || v.Policy.Timeout < 60*unit {
			t.Fatalf("ApplyLearned = %+v, %v", v, err)
		}
		l.reconfigure(liveness.Config{Policy: liveness.Policy{Timeout: 1000 * unit, Learn: judgement.LearnApply, LearnMax: 30 * unit}})
		if got := l.device("a").Policy.Timeout; got > 31*unit {
			t.Errorf("the timeout is %v, want no more than LearnMax, %v", got, 30*unit)
		}
	})
}

func TestLearnedIsNotBelowAnnounced(t *testing.T) {
	inLearner(t, liveness.Config{}, func(l *learner) {
		l.openAs("a", liveness.Hello{Announced: liveness.Policy{Interval: 100 * unit, Timeout: 150 * unit}}, nil)
		l.beat(300, 10*unit)
		v := l.learned("a")
		if v.Deadline != 150*unit || !v.Raised || !strings.Contains(v.Sentence(), "announced") {
			t.Errorf("learned %v of a device that announced %v: %s", v.Deadline, 150*unit, v.Sentence())
		}
	})
}

func TestApplyLearned(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: 90 * unit}}
	inLearner(t, fleet, func(l *learner) {
		l.open("a")
		if _, err := l.registry.ApplyLearned("a", true); !errors.Is(err, liveness.ErrNotLearned) || !strings.Contains(err.Error(), "intervals seen so far") {
			t.Errorf("ApplyLearned of an unknown habit = %v, want %v", err, liveness.ErrNotLearned)
		}
		if _, err := l.registry.ApplyLearned("b", true); !errors.Is(err, liveness.ErrUnknownDevice) {
			t.Errorf("ApplyLearned of an unknown device = %v", err)
		}
		l.beat(300, 20*unit)
		l.events()
		v, err := l.registry.ApplyLearned("a", true)
		if err != nil || v.From != "learned" || v.Policy.Timeout != v.Deadline || v.Deadline > 40*unit {
			t.Fatalf("ApplyLearned = %+v, %v", v, err)
		}
		events := l.events()
		if len(events) != 1 || events[0].Type != liveness.DeviceChanged || events[0].Policy != "learned" || events[0].Timeout != v.Deadline ||
			!strings.Contains(events[0].Message, "instead of") {
			t.Errorf("events %+v", events)
		}
		l.beat(10, 20*unit)
		l.pass(v.Deadline - unit)
		l.wantState("a", liveness.Online)
		l.pass(2 * unit)
		l.wantState("a", liveness.Offline)
		l.sessions["a"].Beat(l.now())
		if _, err := l.registry.ApplyLearned("a", false); err != nil {
			t.Fatal(err)
		}
		if v := l.learned("a"); v.From != "default" || v.Policy.Timeout != 90*unit {
			t.Errorf("after it was taken back: %v from %q", v.Policy.Timeout, v.From)
		}
		if err := l.registry.SetPolicy("a", liveness.Policy{Timeout: 45 * unit}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.registry.ApplyLearned("a", true); !errors.Is(err, liveness.ErrNotLearned) {
			t.Errorf("ApplyLearned of a device with a timeout of its own = %v", err)
		}
		if err := l.registry.SetPolicy("a", liveness.Policy{Expect: "0 3 * * * UTC", Timeout: 45 * unit}); err != nil {
			t.Fatal(err)
		}
		if v := l.learned("a"); v.Sentence() != "no deadline is learned: it is expected by a schedule" {
			t.Errorf("of an expected device: %s", v.Sentence())
		}
	})
}

// With LearnApply a deadline rises at once, and falls by a half a day at most.
func TestLearnedIsFollowed(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: 100 * unit, Learn: judgement.LearnApply}}
	inLearner(t, fleet, func(l *learner) {
		l.pulses = 4 * unit
		l.open("a")
		held := 100 * unit
		for range 4 {
			l.beat(int(24*time.Hour/(20*unit)), 20*unit)
			next := l.learned("a").Policy.Timeout
			if float64(next) < 0.999*float64(held)/1.5 {
				t.Errorf("the deadline fell from %g to %g units in a day", inUnits(held), inUnits(next))
			}
			held = next
		}
		if v := l.learned("a"); v.From != "learned" || held > 40*unit || held < 20*unit {
			t.Errorf("after four days the deadline is %g units from %q: %s", inUnits(held), v.From, v.Sentence())
		}
		l.beat(1, held*9/10)
		l.pass(10 * unit)
		if v := l.learned("a"); v.Policy.Timeout <= held {
			t.Errorf("the deadline is %g units after a gap of nearly that: %s", inUnits(v.Policy.Timeout), v.Sentence())
		}
	})
}

// A deadline that is to rise while the sink is too slow rises once it is not.
func TestLearnedRisesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &gate{newLog(t, 0), make(chan struct{})}
		close(sink.open)
		fleet := liveness.Config{Policy: liveness.Policy{Timeout: 100 * unit, Learn: judgement.LearnApply}, Outbox: 3}
		r := &rig{T: t, log: sink.Log, start: time.Now(), sessions: make(map[string]*liveness.Session), registry: newRegistry(t, sink, fleet)}
		defer start(t, r.registry)()
		cfg := coarse()
		cfg.Name = "edge"
		r.source = r.addSource(cfg)
		r.registry.Keeper().RecordGaps()
		l := &learner{rig: r, pulses: 3 * unit}
		l.open("a")
		l.beat(300, 20*unit)
		if _, err := l.registry.ApplyLearned("a", true); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		held := l.learned("a").Policy.Timeout
		l.beat(1, held*97/100)
		time.Sleep(unit)
		l.pulse()
		sink.open = make(chan struct{})
		for full := error(nil); full == nil; { // until it is busy
			_, full = l.source.Apply("noise", liveness.Signal{Kind: liveness.Failure, At: l.now(), Message: "n"})
		}
		l.checkpoint()
		l.pass(3 * unit)
		if v := l.learned("a"); v.Policy.Timeout != held {
			t.Fatalf("the deadline is %v while the sink is busy, want still %v", v.Policy.Timeout, held)
		}
		close(sink.open)
		synctest.Wait()
		l.pass(3 * unit)
		if v := l.learned("a"); v.Policy.Timeout <= held {
			t.Errorf("the deadline is %v, as before it was to rise: %s", v.Policy.Timeout, v.Sentence())
		}
	})
}

func TestRhythmChanges(t *testing.T) {
	inLearner(t, liveness.Config{Policy: liveness.Policy{Timeout: 180 * unit}}, func(l *learner) {
		l.open("a")
		l.beat(300, 60*unit)
		fast := l.learned("a")
		l.beat(150, 300*unit)
		slow := l.learned("a")
		l.beat(600, 60*unit)
		again := l.learned("a")
		if fast.Deadline > 120*unit || slow.Deadline < 300*unit || again.Basis.Interval > 65*unit {
			t.Errorf("deadlines in units: every 60 %g, every 300 %g, every 60 again %g, interval %g",
				inUnits(fast.Deadline), inUnits(slow.Deadline), inUnits(again.Deadline), inUnits(again.Basis.Interval))
		}
	})
}

func TestOneHeartbeatTeachesNothing(t *testing.T) {
	inLearner(t, liveness.Config{Policy: liveness.Policy{Learn: judgement.LearnApply}}, func(l *learner) {
		l.open("a")
		l.pass(500 * unit)
		v := l.learned("a")
		if v.Deadline != 0 || v.Basis.Gaps != 0 || !strings.Contains(v.Sentence(), ": 0 of") {
			t.Errorf("learned %+v: %s", v, v.Sentence())
		}
	})
}

// Another device in the place of one that was forgotten begins anew.
func TestForgottenHabit(t *testing.T) {
	inLearner(t, liveness.Config{}, func(l *learner) {
		l.open("a")
		l.beat(50, 10*unit)
		if err := l.registry.Forget("a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, id := range []string{"a", "b", "c"} {
			l.open(id)
			if v := l.learned(id); v.Basis.Gaps != 0 || v.Basis.Interval != 0 {
				t.Errorf("%s knows %+v", id, v.Basis)
			}
		}
	})
}

// What was learned, and a deadline that is in force, survive a restart; the gap across it is not learned.
func TestLearnedSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newShelf(t)
		begun := time.Now()
		one := begin(t, k, liveness.Config{}, begun)
		one.registry.Keeper().RecordGaps()
		l := &learner{rig: one.rig, pulses: unit}
		l.open("a")
		l.beat(300, 20*unit)
		before, err := l.registry.ApplyLearned("a", true)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		rec := k.devices["a"]
		l.registry.Keeper().Habits(func(_ uint32, _ string, h uint64) { rec.Habit = h })
		k.devices["a"] = rec
		shapes := l.registry.Keeper().Shapes()
		k.checkpoint(one.registry)
		one.stop()

		time.Sleep(1000 * unit)
		two := begin(t, k, liveness.Config{}, begun)
		defer two.stop()
		two.registry.Keeper().RecordGaps()
		for group, data := range shapes {
			if err := two.registry.Keeper().RestoreShape(group, data); err != nil {
				t.Error(err)
			}
		}
		l = &learner{rig: two.rig, pulses: unit}
		l.open("a")
		l.beat(3, 20*unit)
		after := l.learned("a")
		if after.Policy.Timeout != before.Policy.Timeout || after.From != "learned" || after.Basis.Longest != before.Basis.Longest {
			t.Errorf("after a restart %+v, before %+v", after, before)
		}
		if err := two.registry.Keeper().RestoreShape("", []byte{1, 2, 3}); err == nil {
			t.Error("a damaged shape was restored")
		}
	})
}

// What was learned of groups is the same before the first look at deadlines as after it.
func TestShapesKeepTheirWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := begin(t, newShelf(t), liveness.Config{}, time.Now())
		defer one.stop()
		before := one.registry.Keeper().Shapes()
		time.Sleep(time.Minute)
		if after := one.registry.Keeper().Shapes(); !bytes.Equal(after[""], before[""]) {
			t.Errorf("the shape is %v, before %v", after[""], before[""])
		}
	})
}

func TestLearnPolicyMistakes(t *testing.T) {
	for _, p := range []liveness.Policy{
		{LearnBudget: -1},
		{LearnBudget: 10_000},
		{LearnBudget: math.NaN()},
		{LearnBudget: math.Inf(1)},
		{LearnMax: -1},
		{LearnMax: 40 * 24 * time.Hour},
		{Learn: 9},
	} {
		if _, err := liveness.New(newLog(t, 0), liveness.Config{Policy: p}); err == nil || !strings.Contains(err.Error(), "Learn") {
			t.Errorf("New with %+v = %v, want an error", p, err)
		}
	}
}

func TestHabitIsSmall(t *testing.T) {
	if got := habit.FromUint64(math.MaxUint64).Uint64(); got == 0 {
		t.Error("a habit does not fit into eight bytes")
	}
}

// A gap tells what its verdict follows from beside the policy: maintenance, a run, an end that was judged at once.
func TestWhatAGapTells(t *testing.T) {
	maintain := func(l *learner, on bool) { l.admit(l.registry.SetMaintenance("a", on)) }
	for _, tt := range []struct {
		name    string
		do      func(l *learner) // after a heartbeat
		want    judgement.Gap
		offline time.Duration // by the policy of the fleet
	}{
		{"a run that hangs", func(l *learner) {
			l.signal("a", liveness.Signal{Kind: liveness.Start})
			l.pass(20 * unit)
		}, judgement.Gap{Length: 20 * unit, Running: true}, 10 * unit},
		{"judged at once", func(l *learner) {
			l.signal("a", liveness.Signal{Kind: liveness.Disconnected, Reason: liveness.Reported, AtOnce: true})
			l.pass(20 * unit)
		}, judgement.Gap{Length: 20 * unit, Reason: liveness.Reported, AtOnce: true}, 1},
		{"judged in maintenance", func(l *learner) {
			l.signal("a", liveness.Signal{Kind: liveness.Start})
			maintain(l, true)
			l.pass(20 * unit)
			maintain(l, false)
			l.pass(unit)
		}, judgement.Gap{Length: 21 * unit, Running: true, Suppressed: true}, 10 * unit},
		{"maintenance since it was judged", func(l *learner) {
			l.signal("a", liveness.Signal{Kind: liveness.Start})
			l.pass(15 * unit)
			maintain(l, true)
			l.pass(5 * unit)
		}, judgement.Gap{Length: 20 * unit, Running: true}, 10 * unit},
		{"maintenance until it was judged", func(l *learner) {
			l.signal("a", liveness.Signal{Kind: liveness.Start})
			maintain(l, true)
			l.pass(5 * unit)
			maintain(l, false)
			l.pass(15 * unit)
		}, judgement.Gap{Length: 20 * unit, Running: true}, 10 * unit},
		{"not judged, maintenance for a while", func(l *learner) {
			l.signal("a", liveness.Signal{Kind: liveness.Start})
			l.pass(3 * unit)
			maintain(l, true)
			l.pass(unit)
			maintain(l, false)
			l.pass(5 * unit)
		}, judgement.Gap{Length: 9 * unit, Running: true, Suppressed: true}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fleet := liveness.Policy{Timeout: 10 * unit, CloseGrace: 5 * unit}
			if tt.want.Running {
				fleet.Expect = "0 * * * * UTC" // it is not expected for long
			}
			inLearner(t, liveness.Config{Policy: fleet}, func(l *learner) {
				l.pass(unit)
				l.signal("a", liveness.Signal{})
				tt.do(l)
				l.signal("a", liveness.Signal{})
				l.checkpoint()
				gaps := slices.DeleteFunc(l.gaps, func(g judgement.Gap) bool { return g.End == judgement.EndLimit })
				g := gaps[len(gaps)-1]
				owner := l.source.Owner()
				judged := g.Judge(fleet.Complete(), owner.Grace(fleet.Complete()), nil)
				got := judgement.Gap{Length: g.Length, Closed: g.Closed, Reason: g.Reason, AtOnce: g.AtOnce, Suppressed: g.Suppressed, Running: g.Running}
				if got != tt.want || (judged.Offline-tt.offline).Abs() > 2*timer.Resolution || (judged.Offline > 0) != (tt.offline > 0) {
					t.Errorf("%+v is recorded, judged after %g units; want %+v, %g", got, inUnits(judged.Offline), tt.want, inUnits(tt.offline))
				}
			})
		})
	}
}
