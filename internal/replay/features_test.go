package replay_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// far is the far end of a session. It is not able to answer a probe, and some end the session of a device that is
// judged.
type far struct {
	ends   bool
	judged atomic.Bool
}

func (*far) Replaced()   {}
func (*far) Dismissed()  {}
func (f *far) Judged()   { f.judged.Store(f.ends) }
func (*far) Committed()  {}
func (*far) Probe() bool { return true }

// players plays a plan with all that a device may do.
type players struct {
	*rig

	fars       map[string]*far
	maintained map[string]bool
}

// randomPolicy draws a policy with all that a replay knows of.
func randomPolicy(random *rand.Rand) liveness.Policy {
	p := liveness.Policy{Timeout: planTimeout, LateAfter: 150 * time.Second, RecoverAfter: random.IntN(5)}
	if random.IntN(3) == 0 {
		p.Quiet = []string{"00:40-01:10 UTC", "00:20-00:30 UTC;02:00-02:04 UTC"}[random.IntN(2)]
	}
	if random.IntN(3) == 0 {
		p.Expect = []string{"*/15 * * * * UTC", "7 * * * * UTC"}[random.IntN(2)]
	}
	if random.IntN(2) == 0 {
		p.Probes, p.ProbeWait = 2, 10*time.Second
	}
	if random.IntN(2) == 0 {
		p.CloseGrace = 30 * time.Second
	}
	return p
}

// featurePlan draws what happens to a fleet: all that a device may do, and all that may become of its source.
func featurePlan(random *rand.Rand) (plan []act) {
	for d := range planDevices {
		at := span(random, time.Second, time.Minute)
		add := func(kind string, length time.Duration) { plan = append(plan, act{at, d, kind, length}) }
		add("open", 0)
		for at < planLength {
			at += span(random, 50*time.Second, 70*time.Second)
			switch x := random.IntN(100); {
			case x < 6:
				at += span(random, time.Second, 5*time.Minute)
				add("beat", 0)
			case x < 9:
				at += span(random, time.Minute, 25*time.Minute)
				add("open", 0)
			case x < 13:
				add([]string{"close", "close at once"}[random.IntN(2)], 0)
				at += span(random, 500*time.Millisecond, []time.Duration{40 * time.Second, 10 * time.Minute}[random.IntN(2)])
				add("open", 0)
			case x < 15:
				add("bye", 0)
				at += span(random, time.Second, 10*time.Minute)
				add("open", 0)
			case x < 18:
				length := span(random, 10*time.Second, 8*time.Minute)
				add("sleep", length)
				at += span(random, length/2, length+6*time.Minute)
				add("beat", 0)
			case x < 24:
				add([]string{"start", "fail"}[random.IntN(2)], 0)
				at += span(random, time.Second, 8*time.Minute)
				add("beat", 0)
			case x < 28:
				add("maintenance", span(random, 0, 2*time.Second))
			default:
				add("beat", 0)
			}
		}
	}
	for at := 5 * time.Minute; at < planLength; at += span(random, 2*time.Minute, 40*time.Minute) {
		kind := []string{"stall", "cut"}[random.IntN(2)]
		plan = append(plan, act{at, -1, kind, span(random, 5*time.Second, 4*time.Minute)})
	}
	slices.SortStableFunc(plan, func(a, b act) int { return cmp.Compare(a.at, b.at) })
	return plan
}

// do does one act of a device.
func (r *players) do(a act) {
	r.Helper()
	id := fmt.Sprintf("d%02d", a.device)
	if a.kind == "maintenance" {
		if err := r.registry.SetMaintenance(id, !r.maintained[id]); err != nil {
			r.Fatal(err)
		}
		r.maintained[id] = !r.maintained[id]
		return
	}
	if session := r.sessions[id]; a.device < planDevices*3/4 && r.inSession(id, session, a) {
		return
	}
	sig := liveness.Signal{At: r.now(), Length: a.length}
	switch a.kind {
	case "close", "close at once":
		sig.Kind, sig.Reason, sig.AtOnce = liveness.Disconnected, liveness.Reported, a.kind == "close at once"
	case "bye":
		sig.Kind = liveness.Goodbye
	case "sleep":
		sig.Kind = liveness.Sleep
	case "start":
		sig.Kind = liveness.Start
	case "fail":
		sig.Kind = liveness.Failure
	}
	if _, err := r.source.Apply(id, sig); err != nil {
		r.Fatal(err)
	}
}

// inSession does what a device does in its session, and reports whether that is all.
func (r *players) inSession(id string, s *liveness.Session, a act) bool {
	r.Helper()
	switch a.kind {
	case "open":
		r.fars[id] = &far{ends: a.device%5 == 0}
		next := new(liveness.Session)
		if _, err := r.source.Open(next, id, liveness.Hello{}, r.fars[id], r.now()); err != nil {
			r.Fatal(err)
		}
		r.sessions[id] = next
	case "beat":
		return s.Beat(r.now())
	case "close":
		s.Close(r.now(), liveness.Closed)
	case "bye":
		s.Bye(r.now())
	case "sleep":
		_, err := s.Sleep(r.now(), a.length)
		return err == nil
	default:
		return false
	}
	return true
}

// afterPulse ends the sessions of devices that were judged.
func (r *players) afterPulse() {
	for id, f := range r.fars {
		if f.judged.Swap(false) {
			r.sessions[id].Close(r.now(), liveness.Closed)
		}
	}
}

// unsure returns how many silences of a device ended before the clock is sure to have passed a deadline in them: for
// its verdict, and for that it is late, which is no event if both are passed at once.
func (r *players) unsure(id string) (offline, late int) {
	r.registry.Operator().Silences(func(s *operate.Silence) {
		if s.ID != id {
			return
		}
		for _, g := range r.memory.gaps {
			if g.Num == s.Num && g.End == judgement.EndLimit && g.Length > s.Held.LateAfter {
				late = len(r.memory.gaps) // not all silences after which it was late are recorded
			}
			if g.Num != s.Num || g.End > judgement.EndBye {
				continue
			}
			owner := r.source.Owner()
			j := g.Judge(s.Held, owner.Grace(s.Held), r.memory.breaks)
			if j.Offline > 0 && onBrink(&g, j.Offline) {
				offline++
			}
			if j.Late > 0 && (onBrink(&g, j.Late) || j.Offline > 0 && j.Offline-j.Late <= pulseEvery) {
				late++
			}
		}
	})
	return offline, late
}

// check compares what a replay says of a device with what the registry said. It returns what that is, and how many
// silences the replay has left out.
func (r *players) check(id string) (want told, suppressed int) {
	r.Helper()
	a := r.ask(replay.Question{Device: id, Values: []time.Duration{planTimeout}})
	want = r.sink.of(id)
	unsure, unsureLate := r.unsure(id)
	differ := func(what string, got, want, unsure int) {
		r.Helper()
		if got < want-unsure || got > want+unsure {
			r.Errorf("%s: %d %s are replayed, there were %d, of which %d are not sure", id, got, what, want, unsure)
		}
	}
	differ("verdicts", a.Today.FalseAlarms+a.Today.Seen, want.offline, unsure)
	if want.maintained == 0 { // else it may have come back, or become late, in maintenance and have been judged outside
		differ("notifications", a.Today.Notifications, want.offline+want.online, 2*unsure)
		differ("times late", a.Today.Lates, want.late, unsureLate+a.Undecided+a.Suppressed)
	}
	if p := a.Points[0]; p.FalseAlarms != a.Today.FalseAlarms || p.Seen != a.Today.Seen || p.Notifications != a.Today.Notifications {
		r.Errorf("%s: today %+v, and with the same timeout %+v", id, a.Today, p)
	}
	return want, a.Suppressed
}

// TestReplayKnowsAllFeatures lets all happen that a device may do, and replays it with the policy that was in force:
// there are as many verdicts as there were of each device, but for those in maintenance.
func TestReplayKnowsAllFeatures(t *testing.T) {
	seeds := 20
	if testenv.Checks() {
		seeds = 40
	}
	total, recovering, maintained, left := 0, 0, 0, 0
	for seed := range seeds {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		cfg, plan := liveness.Config{Policy: randomPolicy(random)}, featurePlan(random)
		if seed%2 == 0 {
			plan = slices.DeleteFunc(plan, func(a act) bool { return a.kind == "maintenance" })
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &players{rig: newRig(t, cfg), fars: make(map[string]*far), maintained: make(map[string]bool)}
				defer r.stop()
				r.play(plan, r.do, r.afterPulse)
				for d := range planDevices {
					want, suppressed := r.check(fmt.Sprintf("d%02d", d))
					total, maintained, left = total+want.offline, maintained+want.maintained, left+suppressed
					if cfg.Policy.RecoverAfter > 1 {
						recovering += want.offline
					}
				}
			})
			if t.Failed() {
				t.Logf("%+v", cfg.Policy)
			}
		})
	}
	if total < 50*seeds || recovering < total/4 || maintained < 10*seeds || left < 10*seeds {
		t.Errorf("%d verdicts, %d of them with recover_after, %d in maintenance, %d silences left out, want more", total, recovering, maintained, left)
	}
}
