package link_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
)

// checkpoint is what a store keeps beside the events.
type checkpoint struct {
	sources []keep.SourceRecord
	heard   []keep.Heard
}

func (n *node) checkpoint() (c checkpoint) {
	c.sources, c.heard = n.registry.Keeper().Snapshot(nil)
	return c
}

// die ends the judge as if its machine were gone: nobody reaches it, and nothing of it is kept but its
// events and a checkpoint.
func (n *node) die() {
	f := n.fleet
	f.mu.Lock()
	delete(f.nodes, "a")
	for name, conns := range f.conns {
		for _, c := range conns {
			_ = c.Close()
		}
		delete(f.conns, name)
	}
	f.mu.Unlock()
	n.gate.set(true)
	n.stop()
	n.gate.set(false)
}

// successor takes over what was kept of a judge that has died. Nothing is known of what
// was heard since the checkpoint.
func (n *node) successor(c checkpoint, cfg link.JudgeConfig) *node {
	n.fleet.Helper()
	next := n.fleet.nodeOn("a", cfg, n.gate, func(r *liveness.Registry) error {
		for _, d := range n.gate.records {
			if name := d.Source; !slices.ContainsFunc(c.sources, func(s keep.SourceRecord) bool { return s.Name == name }) {
				c.sources = append(slices.Clip(c.sources), keep.SourceRecord{Name: name}) // its first events came after the checkpoint
			}
		}
		for _, s := range c.sources {
			s.Seq, s.Blank = n.gate.seqs[s.Name], true
			if err := r.Keeper().RestoreSource(s); err != nil {
				return err
			}
		}
		for d := range maps.Values(maps.Clone(n.gate.records)) {
			if int(d.Num) < len(c.heard) && c.heard[d.Num] != 0 {
				d.Heard, d.HeardBy = c.heard[d.Num].Last(), c.sources[c.heard[d.Num].Source()].Name
			}
			if err := r.Keeper().Restore(d); err != nil {
				return err
			}
		}
		return nil
	})
	next.read = n.read
	return next
}

// inFailover runs a test with a judge at "a", a standby at "b", and an ear that knows both.
func inFailover(t *testing.T, f func(f *fleet, a *node, e *listener)) {
	t.Helper()
	inFleet(t, func(fl *fleet, a *node) {
		b := fl.node("b", link.JudgeConfig{Redirect: func() (string, bool) { return "", false }})
		defer b.stop()
		e := fl.ear("one", func(c *link.EarConfig) { c.Judges = []string{"a", "b"} })
		defer e.stop()
		f(fl, a, e)
	})
}

var secondTerm = link.JudgeConfig{Fleet: "f", Term: func() uint64 { return 2 }}

// A device whose ear lives through the death of a judge has the same last sign of life and the same
// silence after as before: it is judged to the tick, never unknown, and no event tells of anything.
func TestOutlived(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		lives, p := e.open("lives")
		dying, _ := e.open("dying")
		asleep, _ := e.open("asleep")
		offline, judged := e.open("offline")
		late, _ := e.open("closes")
		asleep.Sleep(f.now(), 10*time.Minute, nil)
		f.beat(31*time.Second, lives, dying, late)
		a.want("lives:1 device.online", "dying:1 device.online", "asleep:1 device.online", "asleep:2 device.sleeping",
			"offline:1 device.online", "offline:2 device.offline silence", "closes:1 device.online")
		judged.want(t, "judged")
		kept := a.checkpoint()
		f.beat(3*time.Second, lives, dying, late) // of this only the ear knows
		lastSeen := time.Now()
		a.die()
		f.beat(6*time.Second, lives)
		late.Close(f.now(), liveness.Closed)
		a = a.successor(kept, secondTerm)
		defer a.stop()
		f.beat(4*time.Second, lives)
		a.wantState("lives", liveness.Online)
		a.wantState("asleep", liveness.Sleeping)
		if v := a.wantState("dying", liveness.Online); v.LastSeen.Sub(lastSeen).Abs() > 20*time.Millisecond ||
			(v.HeardSilence-time.Since(lastSeen)).Abs() > 300*time.Millisecond || v.Deadline.Sub(lastSeen.Add(30*time.Second)).Abs() > 20*time.Millisecond {
			t.Errorf("last seen %v too late, silent for %v, to be judged after %v", v.LastSeen.Sub(lastSeen), v.HeardSilence, v.Deadline.Sub(lastSeen))
		}
		a.wantState("offline", liveness.Offline)
		if !offline.Judged() {
			t.Error("the ear does not know that a device is offline")
		}
		judged.want(t, "judged")
		a.want()
		f.beat(19*time.Second, lives) // until 29 s after the last sign of life of the dead one
		a.want("closes:2 device.offline closed")
		f.beat(2*time.Second, lives)
		a.want("dying:2 device.offline silence")
		if offline.Beat(f.now()); !asleep.Beat(f.now()) {
			t.Error("a session that slept has ended")
		}
		f.beat(2*time.Second, lives)
		a.want("offline:3 device.online", "asleep:3 device.online")
		for _, v := range a.registry.Sources() {
			if deaf := v.View().Deaf; len(deaf) > 0 {
				t.Errorf("%s was deaf: %v", v.Name(), deaf)
			}
		}
		p.want(t)
	})
}

// What has no session at an ear that goes on had one with somebody who is gone: it has its grace.
func TestNotOutlived(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		stays, _ := e.open("stays")
		gone, _ := e.open("gone")
		f.beat(28*time.Second, stays, gone)
		kept := a.checkpoint()
		f.beat(4*time.Second, stays, gone)
		gone.Close(f.now(), liveness.Closed)
		f.wait(time.Second) // the judge knows, and it is not kept
		a.die()
		f.beat(6*time.Second, stays)
		a = a.successor(kept, secondTerm)
		defer a.stop()
		f.beat(5*time.Second, stays)
		a.wantState("gone", liveness.Unknown)
		f.beat(28*time.Second, stays)
		a.want("stays:1 device.online", "gone:1 device.online")
		f.beat(5*time.Second, stays)
		a.want("gone:2 device.offline silence")
	})
}

// Until the ears of the judge before have told what they heard, nothing is judged; one that does not
// come is given up after 5 s, and whoever may have moved to it has time to come back.
func TestAwaited(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		two := f.ear("two", func(c *link.EarConfig) { c.Judges = []string{"a", "b"} })
		defer two.stop()
		silent, _ := e.open("silent")
		there, _ := two.open("there")
		f.beat(time.Second, silent, there)
		f.beat(22*time.Second, there)
		kept := a.checkpoint()
		a.die()
		f.mu.Lock()
		f.cut["two"] = true
		f.mu.Unlock()
		f.wait(6 * time.Second)
		a = a.successor(kept, secondTerm)
		defer a.stop()
		f.wait(4500 * time.Millisecond) // silent was due after 1 s
		a.want("silent:1 device.online", "there:1 device.online")
		if v := a.wantState("silent", liveness.Online); v.HeardSilence > 30*time.Second {
			t.Errorf("a clock has moved: silent for %v", v.HeardSilence)
		}
		f.wait(12 * time.Second)
		a.want()
		f.wait(3 * time.Second)
		a.want("silent:2 device.offline silence")
	})
}

// A judge that ends in order leaves its ears to the next one.
func TestHandedOver(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		s, p := e.open("d")
		f.beat(25*time.Second, s)
		f.mu.Lock()
		delete(f.nodes, "a")
		f.mu.Unlock()
		a.stop()
		next := a.successor(a.checkpoint(), secondTerm)
		defer next.stop()
		f.wait(3 * time.Second)
		synctest.Wait()
		next.wantState("d", liveness.Online)
		next.want("d:1 device.online")
		f.wait(28 * time.Second)
		next.want("d:2 device.offline silence")
		p.want(t, "judged")
	})
}

// What an ear heard just before the judge died counts from when it was heard, also if the clock is known
// to have gone on after that.
func TestHeardBeforeDeath(t *testing.T) {
	for _, before := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond, 90 * time.Millisecond} {
		inFailover(t, func(f *fleet, a *node, e *listener) {
			stays, _ := e.open("stays")
			closes, _ := e.open("closes")
			f.beat(10*time.Second, stays, closes)
			f.wait(2 * time.Second)
			e.holdPasses(true) // nothing is reported
			f.wait(100 * time.Millisecond)
			heard := time.Now()
			stays.Beat(f.now())
			closes.Close(f.now(), liveness.Closed)
			time.Sleep(before)
			kept := a.checkpoint()
			a.die()
			e.holdPasses(false)
			for i := range kept.sources { // its memory tells more of the clock than a checkpoint
				kept.sources[i].Listened += time.Since(kept.sources[i].At)
				kept.sources[i].At = time.Now()
			}
			f.wait(3 * time.Second)
			a = a.successor(kept, secondTerm)
			defer a.stop()
			f.wait(3 * time.Second)
			if v := a.wantState("closes", liveness.Online); v.Closing != liveness.Closed || v.Deadline.Sub(heard.Add(10*time.Second)).Abs() > 60*time.Millisecond {
				t.Errorf("closed %v before the death: %v, to be judged %v after", before, v.Closing, v.Deadline.Sub(heard))
			}
			if v := a.wantState("stays", liveness.Online); v.LastSeen.Sub(heard).Abs() > 60*time.Millisecond {
				t.Errorf("heard %v before the death, and last seen %v too late", before, v.LastSeen.Sub(heard))
			}
		})
	}
}

// A device that went to sleep, or said goodbye, after the last checkpoint has not been heard since.
func TestToldSinceCheckpoint(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		f.wait(10 * time.Second)
		kept := a.checkpoint()
		f.wait(2 * time.Second)
		asleep, _ := e.open("asleep")
		leaves, _ := e.open("leaves")
		f.wait(500 * time.Millisecond)
		asleep.Sleep(f.now(), 10*time.Minute, nil)
		f.wait(1500 * time.Millisecond)
		leaves.Bye(f.now(), nil)
		f.wait(10 * time.Millisecond) // the ear does not know yet that the judge does
		a.want("asleep:1 device.online", "asleep:2 device.sleeping", "leaves:1 device.online", "leaves:2 device.offline bye")
		a.die()
		f.wait(6 * time.Second)
		a = a.successor(kept, secondTerm)
		defer a.stop()
		f.wait(time.Minute)
		a.wantState("asleep", liveness.Sleeping)
		a.want()
	})
}

// A sign of life that was no heartbeat counts also if only the judge before was told.
func TestHeardOtherwise(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		again, _ := e.open("again")
		paced, _ := e.open("paced")
		f.wait(20 * time.Second)
		kept := a.checkpoint()
		f.wait(2 * time.Second)
		again.Reopen(f.now(), liveness.Hello{}, nil)
		paced.UpdatePolicy(f.now(), liveness.Policy{}, nil)
		f.wait(time.Second)
		a.die()
		f.wait(5 * time.Second)
		a = a.successor(kept, secondTerm)
		defer a.stop()
		f.wait(22 * time.Second)
		a.want("again:1 device.online", "paced:1 device.online")
		f.wait(3 * time.Second)
		a.want("again:2 device.offline silence", "paced:2 device.offline silence")
	})
}

// shifted is a checkpoint of a machine whose wall clock was ahead by as much.
func (c checkpoint) shifted(ahead time.Duration) checkpoint {
	c.sources = slices.Clone(c.sources)
	for i := range c.sources {
		if s := &c.sources[i]; !s.At.IsZero() {
			s.At = s.At.Add(ahead)
		}
	}
	return c
}

// Silence does not depend on what the wall clocks of two judges show.
func TestClocksDiffer(t *testing.T) {
	for _, ahead := range []time.Duration{-90 * time.Second, -3 * time.Second, 3 * time.Second, 90 * time.Second} {
		inFailover(t, func(f *fleet, a *node, e *listener) {
			f.wait(time.Minute)
			alive, _ := e.open("alive")
			_, judged := e.open("dead")
			f.beat(10*time.Second, alive)
			f.wait(21 * time.Second)
			a.want("alive:1 device.online", "dead:1 device.online", "dead:2 device.offline silence")
			judged.want(t, "judged")
			kept := a.checkpoint().shifted(ahead)
			f.beat(time.Second, alive)
			seen := time.Now()
			f.wait(time.Second)
			a.die()
			f.wait(6 * time.Second)
			a = a.successor(kept, secondTerm)
			defer a.stop()
			f.wait(3 * time.Second)
			if v := a.wantState("alive", liveness.Online); (v.HeardSilence - time.Since(seen)).Abs() > 300*time.Millisecond {
				t.Errorf("ahead by %v: silent for %v, want %v", ahead, v.HeardSilence, time.Since(seen))
			}
			f.wait(19 * time.Second)
			a.want()
			f.wait(2 * time.Second)
			a.want("alive:2 device.offline silence")
		})
	}
}

// However old the checkpoint is, who has no session any more has his grace.
func TestOldCheckpoint(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		stays, _ := e.open("stays")
		gone, _ := e.open("gone")
		f.beat(5*time.Second, stays, gone)
		kept := a.checkpoint()
		f.beat(100*time.Second, stays, gone)
		gone.Close(f.now(), liveness.Closed)
		f.wait(time.Second)
		a.die()
		f.beat(6*time.Second, stays)
		a = a.successor(kept, secondTerm)
		defer a.stop()
		f.beat(12*time.Second, stays)
		a.wantState("gone", liveness.Unknown)
		a.want("stays:1 device.online", "gone:1 device.online")
	})
}

// A hello may have died with an ear or a gateway that is gone, together with the judge or shortly before
// it: who has only an old connection elsewhere has time to come back.
func TestHelloLost(t *testing.T) {
	for _, died := range []string{"", "an ear", "an ear that is back", "the gateway"} {
		inFailover(t, func(f *fleet, a *node, e *listener) {
			two := f.ear("two", func(c *link.EarConfig) { c.Judges = []string{"a", "b"} })
			defer two.stop()
			own := addSource(a, died == "the gateway")
			f.wait(time.Second)
			e.open("half")
			for range 24 {
				f.wait(time.Second)
				if own != nil {
					own.Watermark(0, own.Pulse(time.Now()))
				}
			}
			if died == "an ear" || died == "an ear that is back" {
				f.mu.Lock()
				f.cut["two"] = true
				f.mu.Unlock()
				two.stop()
			}
			if died == "an ear" {
				f.wait(4 * time.Second) // it is removed
			}
			kept := a.checkpoint()
			a.die()
			f.wait(6 * time.Second)
			a = a.successor(kept, secondTerm)
			defer a.stop()
			if died == "an ear that is back" {
				again := f.ear("two")
				f.mu.Lock()
				f.cut["two"] = false
				f.mu.Unlock()
				defer again.stop()
			}
			f.wait(2 * time.Second)
			if died == "" {
				a.want("half:1 device.online", "half:2 device.offline silence")
				return
			}
			f.wait(9 * time.Second)
			a.want("half:1 device.online")
			f.wait(5 * time.Second)
			a.want("half:2 device.offline silence")
		})
	}
}

// addSource adds a source of the judge's own gateway, if it has one.
func addSource(n *node, has bool) *liveness.Source {
	if !has {
		return nil
	}
	s, err := n.registry.AddSource(liveness.SourceConfig{Name: "gateway/tls", Pool: "gateway"})
	if err != nil {
		n.fleet.Fatal(err)
	}
	return s
}

// A session that was opened after a judge's death is later than one from before, though no event told of
// that one's greater number.
func TestHalfOpenOfGreaterEpoch(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		two := f.ear("two", func(c *link.EarConfig) { c.Judges = []string{"a", "b"} })
		defer two.stop()
		for range 3 {
			s, _ := e.open("d")
			f.wait(time.Second)
			s.Close(f.now(), liveness.Closed)
			f.wait(time.Second)
		}
		old, replaced := e.open("d")
		kept := a.checkpoint()
		a.die()
		f.mu.Lock()
		f.cut["one"] = true
		f.mu.Unlock()
		f.wait(200 * time.Millisecond)
		p, o := &far{}, &outcome{}
		s := two.Open("d", liveness.Hello{}, p, f.now(), o.done)
		a = a.successor(kept, secondTerm)
		defer a.stop()
		f.wait(time.Second)
		f.mu.Lock()
		f.cut["one"] = false
		f.mu.Unlock()
		f.wait(2 * time.Second)
		o.want(t, nil)
		p.want(t)
		replaced.want(t, "replaced")
		if !s.Beat(f.now()) || old.Beat(f.now()) {
			t.Error("the half-open session has replaced the new one")
		}
	})
}

// No clock of the pool moves from when the judge is made: its own gateway may begin before it runs.
func TestAwaitedBeforeRun(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		f.wait(10 * time.Second)
		kept := a.checkpoint()
		registry, err := liveness.New(a.gate, liveness.Config{})
		if err == nil {
			err = registry.Keeper().RestoreSource(kept.sources[0])
		}
		if err != nil {
			t.Fatal(err)
		}
		link.NewJudge(registry, secondTerm)
		own := addSource(&node{fleet: f, registry: registry}, true)
		for range 3 {
			own.Watermark(0, own.Pulse(time.Now()))
			f.wait(time.Second)
		}
		if now := own.Now(); now != 0 {
			t.Errorf("the clock has come to %v", now)
		}
		ended, end := context.WithCancel(context.Background())
		end()
		if err := registry.Run(ended); err != nil {
			t.Error(err)
		}
	})
}

// A device whose hello no judge has answered was heard: the next one knows when.
func TestHelloWithoutAJudge(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		s, _ := e.open("d")
		f.wait(20 * time.Second)
		kept := a.checkpoint()
		a.die()
		f.wait(time.Second)
		s.Close(f.now(), liveness.Closed)
		f.wait(time.Second)
		said := time.Now()
		var o outcome
		e.Open("d", liveness.Hello{}, &far{}, f.now(), o.done)
		e.Open("new", liveness.Hello{}, &far{}, f.now(), nil)
		f.wait(5500 * time.Millisecond)
		o.want(f, liveness.ErrBusy)
		a = a.successor(kept, secondTerm)
		defer a.stop()
		f.wait(2 * time.Second)
		if e.lettings() > 0 {
			t.Fatal("the ear has let go")
		}
		v, err := a.registry.Device("d")
		if err != nil || v.LastSeen.Sub(said).Abs() > 300*time.Millisecond || v.Connected {
			t.Errorf("%+v, %v; it said hello at %v", v, err, said)
		}
		if _, err := a.registry.Device("new"); !errors.Is(err, liveness.ErrUnknownDevice) {
			t.Errorf("a device is known that was never told that it is: %v", err)
		}
		a.want("d:1 device.online")
		f.wait(22 * time.Second) // 30 s after it said hello
		a.want()
		f.wait(14 * time.Second)
		a.want("d:2 device.offline silence")
	})
}
