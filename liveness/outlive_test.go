package liveness_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
)

// goOn begins a process that awaits the source, which knows all since a listening time, and has listened
// since origin.
func goOn(t *testing.T, k *shelf, origin time.Time, kept time.Duration, prepare ...func(*liveness.Registry)) *life {
	t.Helper()
	_, read := k.Bounds()
	l := &life{rig: &rig{T: t, log: k.Log, start: origin, read: read, sessions: map[string]*liveness.Session{}}, shelf: k}
	l.registry = newRegistry(t, k, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, LateAfter: 10 * unit}})
	l.stop = start(t, l.registry)
	if err := k.restore(l.registry); err != nil {
		t.Fatal(err)
	}
	for _, f := range prepare {
		f(l.registry)
	}
	if !l.registry.Sources()[0].Owner().Await("pool") {
		t.Error("the source is not awaited")
	}
	l.source = addSource(t, l.registry, liveness.SourceConfig{Name: "edge", MaxGap: unit, ReconnectGrace: 10 * unit, Pool: "pool"})
	l.source.Owner().Continue(time.Now(), kept, time.Since(origin))
	return l
}

// resume resumes a session that was heard last at an instant.
func (l *life) resume(id string, epoch uint64, heard time.Duration) (*liveness.Session, error) {
	s := new(liveness.Session)
	past := l.source.Owner().Past(time.Now())
	err := l.source.Resume(s, id, liveness.Hello{Epoch: epoch}, nil, past.At(time.Since(l.start.Add(heard))), false)
	return s, err
}

// A source that outlives its registry goes on in the next one. A session that is resumed is no sign of
// life, and its device's silence counts as before; a device without one has its grace.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, LateAfter: 10 * unit}}, origin)
		l.source.Pulse(time.Now())
		for _, id := range []string{"late", "lost", "gone", "moved", "alive", "asleep"} {
			l.open(id)
		}
		l.sessions["gone"].Bye(l.now())
		l.sessions["asleep"].Sleep(l.now(), 100*unit)
		l.listen(12 * unit)
		l.sessions["alive"].Beat(l.now())
		k.checkpoint(l.registry)
		l.events()
		l.stop()
		time.Sleep(8 * unit) // the time is 20

		l = goOn(t, k, origin, 12*unit)
		defer func() { l.stop() }()
		l.wantState("alive", liveness.Unknown)
		for id, heard := range map[string]time.Duration{"late": 0, "gone": 0, "asleep": 0, "alive": 15 * unit} {
			if _, err := l.resume(id, 1, heard); err != nil {
				t.Errorf("Resume(%s) = %v", id, err)
			}
		}
		for id, want := range map[string]liveness.State{
			"late": liveness.Late, "lost": liveness.Unknown, "gone": liveness.Offline, "asleep": liveness.Sleeping, "alive": liveness.Online,
		} {
			l.wantState(id, want)
		}
		if v := l.device("alive"); inUnits(v.LastSeen.Sub(origin)) != 15 || inUnits(v.Deadline.Sub(origin)) != 45 {
			t.Errorf("seen at %g, due at %g, want 15 and 45", l.units(v.LastSeen), l.units(v.Deadline))
		}
		moved, err := l.resume("moved", 5, 0)
		if _, stale := l.resume("moved", 4, 0); err != nil || !errors.Is(stale, liveness.ErrStaleEpoch) {
			t.Errorf("Resume = %v, with an epoch that has passed %v", err, stale)
		}
		if _, err := l.resume("moved", 5, 0); !errors.Is(err, liveness.ErrReplaced) {
			t.Errorf("Resume beside a session = %v", err)
		}
		if _, err := l.resume("", 1, 0); !errors.Is(err, liveness.ErrInvalidID) {
			t.Errorf("Resume without an id = %v", err)
		}
		l.want()
		l.listen(4 * unit) // until 24
		moved.Beat(l.now())
		l.want("moved:3 device.online at 24 seen 24 due 54 silent 0")
		l.listen(6 * unit)
		l.want("alive:4 device.late at 25 seen 15 due 45 silent 10", "late:3 device.offline silence at 30 seen 0 due 30 silent 30")
		l.listen(2 * unit)
		l.wantState("alive", liveness.Late)
		l.listen(13 * unit) // until 45
		l.want("moved:4 device.late at 34 seen 24 due 54 silent 10", "lost:3 device.offline silence at 40 seen 0 due 40 silent 40",
			"alive:5 device.offline silence at 45 seen 15 due 45 silent 30")
		if d := l.source.View().Deaf; len(d) > 0 {
			t.Errorf("the source was deaf: %v", d)
		}
		if st := l.registry.Stats(); st.Verdicts != 3 || st.PutOff != 1 { // of lost
			t.Errorf("%d verdicts, %d of them put off, want 3 and 1", st.Verdicts, st.PutOff)
		}
	})
}

// A source that cannot vouch for all the time has been deaf, and what it resumes is unknown until it is
// heard.
func TestContinueAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, liveness.Config{}, origin)
		l.source.Pulse(time.Now())
		l.open("d")
		l.listen(5 * unit)
		k.checkpoint(l.registry)
		l.events()
		l.stop()
		time.Sleep(8 * unit)

		l = goOn(t, k, origin, 6*unit)
		defer func() { l.stop() }()
		if _, err := l.resume("d", 1, 0); err != nil {
			t.Errorf("Resume = %v", err)
		}
		l.want("source/edge:1 source.deaf at 5 deaf 8", "source/edge:2 source.heard at 13 deaf 8")
		l.wantState("d", liveness.Unknown)
		if l.source.Owner().Await("pool") {
			t.Error("a source that listens is awaited")
		}
		l.source.Owner().Leave(time.Now())
		if l.source.Owner().Await("pool") {
			t.Error("a source that has left is awaited")
		}
	})
}

// A pool stands still until a source that it awaits has come, or has left.
func TestAwait(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k, origin := newShelf(t), time.Now()
			l := begin(t, k, liveness.Config{}, origin)
			l.source.Pulse(time.Now())
			l.open("d")
			l.listen(5 * unit)
			k.checkpoint(l.registry)
			l.stop()

			_, read := k.Bounds()
			l = &life{rig: &rig{T: t, log: k.Log, start: origin, read: read, sessions: map[string]*liveness.Session{}}, shelf: k}
			l.registry = newRegistry(t, k, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit}})
			l.stop = start(t, l.registry)
			defer func() { l.stop() }()
			if err := k.restore(l.registry); err != nil {
				t.Fatal(err)
			}
			edge := l.registry.Sources()[0]
			edge.Owner().Await("pool")
			l.source = l.rig.addSource(liveness.SourceConfig{Name: "other", Pool: "pool"})
			l.listen(5 * unit)
			if now := l.source.Now(); now != 0 {
				t.Errorf("the clock of another is %g, want 0", inUnits(now))
			}
			if leaves {
				edge.Owner().Leave(time.Now())
				l.pulse()
			} else {
				addSource(t, l.registry, liveness.SourceConfig{Name: "edge", MaxGap: unit, Pool: "pool"}).Owner().Continue(time.Now(), unit, 10*unit)
				marked(edge)
			}
			if now := l.source.Now(); inUnits(now) != 5 {
				t.Errorf("the clock of another is %g, want 5", inUnits(now))
			}
		})
	}
}

// Where in a pool a device is heard is no event, and what is kept of it knows all the same.
func TestMoveInPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, liveness.Config{}, origin)
		a := addSource(t, l.registry, liveness.SourceConfig{Name: "gateway/a", Pool: "gateway", MaxGap: unit})
		listenWith(3*unit, a)
		b := addSource(t, l.registry, liveness.SourceConfig{Name: "gateway/b", Pool: "gateway", MaxGap: unit})
		listenWith(2*unit, a, b) // b's clock is 3 behind
		open := func(s *liveness.Source, id string) *liveness.Session {
			session := new(liveness.Session)
			if _, err := s.Open(session, id, liveness.Hello{}, nil, s.Time(time.Now())); err != nil {
				t.Fatal(err)
			}
			return session
		}
		moves, returns := open(a, "moves"), open(a, "returns")
		listenWith(2*unit, a, b)
		moves.Abandon()
		returns.Abandon()
		l.events()
		open(b, "moves")
		returns = open(b, "returns")
		listenWith(2*unit, a, b)
		l.want()
		k.checkpoint(l.registry)
		listenWith(unit, a, b)
		open(a, "returns") // while its session at b is open
		listenWith(unit, a, b)
		l.want("returns:2 device.session_replaced at 10 seen 10 due 40 silent 0")
		if returns.Beat(b.Time(time.Now())) {
			t.Error("the session at b is open")
		}
		l.stop()

		l = begin(t, k, liveness.Config{}, origin)
		defer func() { l.stop() }()
		for id, want := range map[string]struct {
			source string
			seen   float64
		}{"moves": {"gateway/b", 7}, "returns": {"gateway/a", 9}} { // the clocks stood at 9
			if v := l.device(id); v.Source != want.source || l.units(v.LastSeen) != want.seen {
				t.Errorf("%s is at %s, seen at %g, want %v", id, v.Source, l.units(v.LastSeen), want)
			}
		}
	})
}

// A window that excused silence when the process before ended, or was said to end later, has not ended
// before the source went on.
func TestExcusedInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit}}, origin)
		l.pulse()
		ends := map[string]time.Duration{"d-past": -10 * unit, "d-over": 0, "d-open": 10 * unit}
		for id := range ends {
			l.open(id)
		}
		cover(t, l.registry, "", operate.Window{Name: "w", Suppress: 1000 * unit}, "d")
		l.listen(100 * unit)
		k.checkpoint(l.registry)
		l.stop()
		time.Sleep(20 * unit)

		l = goOn(t, k, origin, 100*unit, func(r *liveness.Registry) {
			r.Operator().Suppress(func(id, _ string, _ time.Duration) (time.Duration, bool) { return ends[id], true })
		})
		defer func() { l.stop() }()
		for id := range ends {
			if _, err := l.resume(id, 1, 0); err != nil {
				t.Errorf("Resume(%s) = %v", id, err)
			}
		}
		for _, step := range []struct {
			listen int
			want   string
		}{{1, "d-past"}, {28, "d-past"}, {2, "d-over d-past"}, {8, "d-over d-past"}, {2, "d-open d-over d-past"}} {
			l.listen(time.Duration(step.listen) * unit)
			var got []string
			for id := range ends {
				if l.device(id).State == liveness.Offline {
					got = append(got, id)
				}
			}
			slices.Sort(got)
			if s := strings.Join(got, " "); s != step.want {
				t.Errorf("at %g: offline are %q, want %q", inUnits(l.now()), s, step.want)
			}
		}
	})
}

// Whether a sleeping device was heard since is told by its owner, whatever the wall clocks of two machines
// show of a source that begins anew.
func TestStillAsleep(t *testing.T) {
	for _, still := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			k, origin := newShelf(t), time.Now()
			l := begin(t, k, liveness.Config{}, origin)
			l.source.Pulse(time.Now())
			l.open("d")
			l.sessions["d"].Sleep(l.now(), 100*unit)
			l.listen(5 * unit)
			k.checkpoint(l.registry)
			rec := k.sources["edge"]
			rec.At = rec.At.Add(-20 * unit)
			k.sources["edge"] = rec
			l.stop()

			l = goOn(t, k, origin, 6*unit)
			defer func() { l.stop() }()
			past := l.source.Owner().Past(time.Now())
			err := l.source.Resume(new(liveness.Session), "d", liveness.Hello{Epoch: 1}, nil, past.At(5*unit), still)
			l.listen(step)
			if got := l.device("d").State; err != nil || (got == liveness.Sleeping) != still {
				t.Errorf("still=%v: Resume = %v, and the device is %v", still, err, got)
			}
		})
	}
}
