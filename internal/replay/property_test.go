package replay_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

const (
	planDevices = 20
	planLength  = 3 * time.Hour
	planTimeout = 180 * time.Second
)

// brink is how long before each act the clock is moved on. A heartbeat that comes so soon after a deadline
// that the clock has not passed it yet is in time.
const brink = 125 * time.Millisecond

// act is one thing that happens in a plan.
type act struct {
	at     time.Duration
	device int
	kind   string // open, beat, close, will, sleep, bye, stall, cut
	length time.Duration
}

// planOf draws what happens to a fleet. The first devices have sessions, the last do not.
func planOf(random *rand.Rand) []act {
	var plan []act
	for d := range planDevices {
		plan = append(plan, lifeOf(random, d)...)
	}
	for at := 5 * time.Minute; at < planLength; at += span(random, 2*time.Minute, 40*time.Minute) {
		kind := []string{"stall", "cut"}[random.IntN(2)]
		plan = append(plan, act{at, -1, kind, span(random, 5*time.Second, 4*time.Minute)})
	}
	slices.SortStableFunc(plan, func(a, b act) int { return cmp.Compare(a.at, b.at) })
	return plan
}

func span(random *rand.Rand, from, to time.Duration) time.Duration {
	return (from + time.Duration(random.Int64N(int64(to-from)))).Round(250 * time.Millisecond)
}

// lifeOf draws what a device does.
func lifeOf(random *rand.Rand, d int) (life []act) {
	interval := []time.Duration{20 * time.Second, 45 * time.Second, 60 * time.Second, 75 * time.Second}[d%4]
	add := func(at time.Duration, kind string, length time.Duration) {
		life = append(life, act{at, d, kind, length})
	}
	sessions := d < planDevices*3/4
	at := span(random, time.Second, time.Minute)
	add(at, "open", 0)
	for at < planLength {
		at += span(random, interval*9/10, interval*11/10)
		switch x := random.IntN(100); {
		case x < 6: // some heartbeats are lost
			at += span(random, time.Second, 5*time.Minute)
			add(at, "beat", 0)
		case x < 8: // it is away for long
			at += span(random, time.Minute, 25*time.Minute)
			add(at, "open", 0)
		case x < 11 && sessions: // its connection ends
			if random.IntN(3) == 0 { // it was silent before
				at += span(random, time.Second, 8*time.Minute)
			}
			add(at, "close", 0)
			at += span(random, 500*time.Millisecond, []time.Duration{20 * time.Second, 10 * time.Minute}[random.IntN(2)])
			add(at, "open", 0)
		case x < 11: // its broker says so
			add(at, "will", 0)
			at += span(random, 500*time.Millisecond, []time.Duration{20 * time.Second, 10 * time.Minute}[random.IntN(2)])
			add(at, "open", 0)
		case x < 12 && sessions:
			add(at, "bye", 0)
			at += span(random, time.Second, 10*time.Minute)
			add(at, "open", 0)
		case x < 15:
			length := span(random, 10*time.Second, 8*time.Minute)
			add(at, "sleep", length)
			at += span(random, length/2, length+6*time.Minute)
			add(at, "beat", 0)
		default:
			add(at, "beat", 0)
		}
	}
	return life
}

// do does one act.
func (r *rig) do(a act) {
	r.Helper()
	id := fmt.Sprintf("d%02d", a.device)
	if a.device >= planDevices*3/4 {
		sig := liveness.Signal{At: r.now()}
		switch a.kind {
		case "sleep":
			sig.Kind, sig.Length = liveness.Sleep, a.length
		case "will":
			sig.Kind, sig.Reason = liveness.Disconnected, liveness.Will
		}
		if _, err := r.source.Apply(id, sig); err != nil {
			r.Fatal(err)
		}
		return
	}
	session := r.sessions[id]
	switch a.kind {
	case "open":
		r.open(id)
	case "beat":
		session.Beat(r.now())
	case "close":
		session.Close(r.now(), liveness.Closed)
	case "bye":
		session.Bye(r.now())
	case "sleep":
		if _, err := session.Sleep(r.now(), a.length); err != nil {
			r.Fatal(err)
		}
	}
}

// play lets a plan happen; do does an act of a device, and after what follows from a pulse.
func (r *rig) play(plan []act, do func(act), after func()) {
	r.Helper()
	start := time.Now()
	elapsed := func() time.Duration { return time.Since(start) }
	for len(plan) > 0 {
		next := plan[0]
		if next.device < 0 {
			plan = plan[1:]
			if next.kind == "cut" {
				r.pulse(nil)
				r.source.Deafen(time.Now())
			}
			time.Sleep(next.length)
		} else {
			time.Sleep(min(max(next.at-elapsed()-brink, 0), pulseEvery))
			r.pulse(nil)
			time.Sleep(min(max(next.at-elapsed(), 0), brink))
		}
		r.pulse(func() {
			for len(plan) > 0 && plan[0].device >= 0 && plan[0].at <= elapsed() {
				do(plan[0])
				plan = plan[1:]
			}
		})
		after()
	}
	r.listen(time.Minute)
	r.checkpoint()
}

// planned is a configuration in which a plan is played.
func planned(change func(*liveness.Policy)) liveness.Config {
	p := liveness.Policy{Timeout: planTimeout, LateAfter: 150 * time.Second}
	change(&p)
	return liveness.Config{Policy: p}
}

// recording is a plan that was played, and what was recorded of it.
type recording struct {
	memory   memory
	owner    operate.Owner
	ids      map[uint32]string
	set      map[uint32]liveness.Policy
	open     []judgement.Gap
	limits   map[string]time.Duration // the greatest by device
	known    map[string]time.Time     // when the first limit was recorded
	verdicts []verdict
	answer   *replay.Answer
}

// counts fails unless a point of the answer counts as many verdicts as there are in the gaps since the
// device was known.
func (rec *recording) counts(t *testing.T, p replay.Point) {
	t.Helper()
	want := 0
	for _, v := range rec.replayed(func(to *liveness.Policy) { to.Timeout = p.Value.Duration() }) {
		if !v.late && !v.at.Before(rec.known[v.device]) {
			want++
		}
	}
	undecided := rec.answer.Undecided
	if got := p.FalseAlarms + p.Seen; got > want || got < want-undecided {
		t.Errorf("%v: %d verdicts are counted, want %d", p.Value.Duration(), got, want)
	}
}

// unrecorded reports whether a verdict may be of a gap that was too short to be recorded.
func (rec *recording) unrecorded(v verdict, p liveness.Policy) bool {
	value := p.Timeout
	switch {
	case v.late:
		value = p.LateAfter
	case v.reason != liveness.Silence:
		return false
	}
	return value < rec.limits[v.device] || value < planTimeout && v.at.Before(rec.known[v.device])
}

// record plays a plan and returns what was recorded.
func record(t *testing.T, plan []act, cfg liveness.Config) (rec recording) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, cfg)
		defer r.stop()
		r.play(plan, r.do, func() {})
		rec = recording{
			memory: r.memory, owner: r.source.Owner(), ids: make(map[uint32]string), set: make(map[uint32]liveness.Policy),
			limits: make(map[string]time.Duration), known: make(map[string]time.Time), verdicts: r.sink.verdicts,
		}
		r.registry.Operator().Silences(func(s *operate.Silence) {
			rec.ids[s.Num], rec.set[s.Num] = s.ID, s.Set
			if s.Open.Length > 0 {
				rec.open = append(rec.open, s.Open)
			}
		})
		rec.answer = r.ask(replay.Question{Values: []time.Duration{planTimeout, 4 * time.Minute, 10 * time.Minute}})
		for _, g := range rec.memory.gaps {
			if id := rec.ids[g.Num]; g.End == judgement.EndLimit {
				if rec.known[id].IsZero() {
					rec.known[id] = g.At
				}
				rec.limits[id] = max(rec.limits[id], g.Length)
			}
		}
	})
	return rec
}

// replayed returns what a replay says of the gaps with other policies. Of what the registry's clock may
// have passed too late to notice, it is not sure: may is set.
func (rec *recording) replayed(change func(*liveness.Policy)) (all []verdict) {
	for _, g := range append(slices.Clone(rec.memory.gaps), rec.open...) {
		if g.End > judgement.EndOpen {
			continue
		}
		p := rec.set[g.Num]
		change(&p)
		j := g.Judge(p.Complete(), rec.owner.Grace(p.Complete()), rec.memory.breaks)
		if j.Late > 0 {
			both := j.Offline > 0 && j.Offline-j.Late <= pulseEvery // a clock that passes both at once says offline
			all = append(all, verdict{device: rec.ids[g.Num], due: g.Start + j.Late, late: true, may: both || onBrink(&g, j.Late), at: g.At})
		}
		if j.Offline > 0 {
			all = append(all, verdict{device: rec.ids[g.Num], due: g.Start + j.Offline, reason: j.Reason, may: onBrink(&g, j.Offline), at: g.At})
		}
	}
	return all
}

// onBrink reports whether a gap ended before the clock is sure to have passed a deadline in it.
func onBrink(g *judgement.Gap, deadline time.Duration) bool {
	return g.End != judgement.EndOpen && g.Length-deadline <= brink
}

// differ compares what a replay says with what a registry said, within a tick of the timers and, for what
// is late, a pulse.
func (rec *recording) differ(t *testing.T, got, want []verdict, p liveness.Policy) {
	t.Helper()
	g, w := byDevice(got), byDevice(want)
	for _, id := range rec.ids {
		extra, missing := cancel(g[id], w[id])
		for _, v := range extra {
			t.Errorf("%s: replay says %v at %v (late: %v), the registry does not", id, v.reason, v.due, v.late)
		}
		for _, v := range missing {
			if !rec.unrecorded(v, p) {
				t.Errorf("%s: the registry says %v at %v (late: %v), replay does not", id, v.reason, v.due, v.late)
			}
		}
	}
}

func byDevice(all []verdict) map[string][]verdict {
	m := make(map[string][]verdict)
	for _, v := range all {
		m[v.device] = append(m[v.device], v)
	}
	return m
}

// cancel removes what is in both.
func cancel(got, want []verdict) (g, w []verdict) {
	w = slices.Clone(want)
	for _, v := range got {
		i := slices.IndexFunc(w, func(o verdict) bool {
			return o.reason == v.reason && o.late == v.late && (o.due-v.due).Abs() <= tick(v)
		})
		switch {
		case i < 0 && !v.may:
			g = append(g, v)
			continue
		case i < 0:
			continue
		}
		w = slices.Delete(w, i, i+1)
	}
	return g, w
}

func tick(v verdict) time.Duration {
	if v.late { // the event says when it was noticed
		return maxGap
	}
	return time.Millisecond
}

func TestReplayIsWhatHappens(t *testing.T) {
	seeds := 2
	if testenv.Checks() {
		seeds = 5
	}
	changes := []struct {
		name   string
		change func(*liveness.Policy)
	}{
		{"as it was", func(*liveness.Policy) {}},
		{"timeout 200s", func(p *liveness.Policy) { p.Timeout = 200 * time.Second }},
		{"timeout 4m", func(p *liveness.Policy) { p.Timeout = 4 * time.Minute }},
		{"timeout 10m", func(p *liveness.Policy) { p.Timeout = 10 * time.Minute }},
		{"timeout 160s", func(p *liveness.Policy) { p.Timeout = 160 * time.Second }},
		{"timeout 120s", func(p *liveness.Policy) { p.Timeout = 120 * time.Second }},
		{"late after 120s", func(p *liveness.Policy) { p.LateAfter = 120 * time.Second }},
		{"close grace 30s", func(p *liveness.Policy) { p.CloseGrace = 30 * time.Second }},
		{"close grace 6s", func(p *liveness.Policy) { p.CloseGrace = 6 * time.Second }},
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			plan := planOf(rand.New(rand.NewPCG(uint64(seed), 1)))
			rec := record(t, plan, planned(func(*liveness.Policy) {}))
			for _, p := range rec.answer.Points {
				rec.counts(t, p)
			}
			for _, c := range changes {
				t.Run(c.name, func(t *testing.T) {
					cfg := planned(c.change)
					other := record(t, plan, cfg)
					if len(other.verdicts) < 50 {
						t.Fatalf("%d verdicts, want more", len(other.verdicts))
					}
					rec.differ(t, rec.replayed(c.change), other.verdicts, cfg.Policy)
				})
			}
		})
	}
}
