package liveness_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
)

// pooled is a rig with two members of a pool, which listen from the beginning.
type pooled struct {
	*rig

	a, b *liveness.Source
}

func inPool(t *testing.T, fleet liveness.Config, f func(p *pooled)) {
	t.Helper()
	inRig(t, fleet, liveness.SourceConfig{Name: "gateway/a", Pool: "gateway"}, func(r *rig) {
		f(&pooled{r, r.source, r.addSource(liveness.SourceConfig{Name: "gateway/b", Pool: "gateway"})})
	})
}

// marked pulses sources, passes the marks through at once, and lets a step pass.
func marked(sources ...*liveness.Source) {
	for _, s := range sources {
		s.Watermark(0, s.Pulse(time.Now()))
	}
	synctest.Wait()
	time.Sleep(step)
}

// listenWith lets time pass in which sources listen.
func listenWith(d time.Duration, sources ...*liveness.Source) {
	for ; d > 0; d -= step {
		marked(sources...)
	}
	for _, s := range sources {
		s.Watermark(0, s.Pulse(time.Now()))
	}
	synctest.Wait()
}

func (p *pooled) clocks(a, b float64) {
	p.Helper()
	if gotA, gotB := inUnits(p.a.Now()), inUnits(p.b.Now()); gotA != a || gotB != b {
		p.Errorf("at %g the clocks are %g and %g, want %g and %g", p.units(time.Now()), gotA, gotB, a, b)
	}
}

// A hello that comes late does not replace the session that the device has opened since at another
// member: its heartbeats still count.
func TestLateHello(t *testing.T) {
	inPool(t, liveness.Config{Policy: liveness.Policy{Timeout: 4 * unit}}, func(p *pooled) {
		listenWith(unit, p.a, p.b)
		read := p.a.Time(time.Now()) // the hello, at 1
		listenWith(unit, p.a, p.b)
		var there, late, again liveness.Session
		if _, err := p.b.Open(&there, "dev", liveness.Hello{}, nil, p.b.Time(time.Now())); err != nil {
			p.Fatal(err)
		}
		listenWith(unit, p.a, p.b)
		if _, err := p.a.Open(&late, "dev", liveness.Hello{}, nil, read); !errors.Is(err, liveness.ErrReplaced) {
			p.Errorf("Open = %v, want ErrReplaced", err)
		}
		if late.Close(read, liveness.Closed) || !there.Beat(p.b.Time(time.Now())) {
			p.Error("the late session is open, or the other is not")
		}
		if _, err := p.a.Open(&again, "dev", liveness.Hello{}, nil, p.a.Time(time.Now())); err != nil {
			p.Errorf("a hello that is not late: %v", err)
		}
		if there.Beat(p.b.Time(time.Now())) {
			p.Error("both sessions are open")
		}
	})
}

// A device that gave up waiting at another member of its pool was heard there, though it goes on in the
// session that it has.
func TestOpenLeftElsewhere(t *testing.T) {
	inPool(t, liveness.Config{}, func(p *pooled) {
		listenWith(2*unit, p.a, p.b)
		session := p.open("dev") // at a
		listenWith(25*unit, p.a, p.b)
		now := p.b.Time(p.start.Add(27 * unit))
		if _, err := p.b.Open(new(liveness.Session), "dev", liveness.Hello{Left: now - 2*unit}, nil, now); !errors.Is(err, liveness.ErrReplaced) {
			p.Errorf("Open = %v, want ErrReplaced", err)
		}
		listenWith(10*unit, p.a, p.b) // it was silent for 35 at a, for 10 at b
		p.wantState("dev", liveness.Online)
		if !session.Beat(p.a.Time(p.start.Add(37 * unit))) {
			p.Error("the session was replaced")
		}
	})
}

// A member that is deaf is not waited for, and its clock stands. Once it listens again it is waited
// for until its first mark.
func TestPoolDeafMember(t *testing.T) {
	inPool(t, liveness.Config{}, func(p *pooled) {
		listenWith(unit, p.a, p.b)
		time.Sleep(step)
		p.a.Watermark(0, p.a.Pulse(time.Now()))
		p.clocks(1, 1)
		p.b.Deafen(time.Now())
		p.clocks(1.25, 1)
		listenWith(unit, p.a)
		p.clocks(2.25, 1)
		resumed := p.b.Pulse(time.Now())
		if again := p.b.Pulse(time.Now()); again != resumed {
			p.Errorf("%v, then %v", resumed, again)
		}
		listenWith(unit, p.a)
		p.clocks(2.25, 1)
		p.b.Watermark(0, resumed)
		if now := p.b.Now(); now != resumed {
			p.Errorf("the clock of b is %v, want %v", now, resumed)
		}
		if got := inUnits(p.a.Now()); got != 2.25 {
			p.Errorf("the clock of a is %g, want 2.25", got)
		}
		listenWith(unit, p.a, p.b)
		if got := inUnits(p.a.Now()); got != 4.25 {
			p.Errorf("the clock of a is %g, want 4.25", got)
		}
	})
}

// A member is waited for from its first pulse on, which all of its parts have to pass.
func TestPoolJoin(t *testing.T) {
	inPool(t, liveness.Config{}, func(p *pooled) {
		listenWith(unit, p.a, p.b)
		c := addSource(p.T, p.registry, liveness.SourceConfig{Name: "gateway/c", Pool: "gateway", Parts: 2})
		listenWith(unit, p.a, p.b)
		p.clocks(2, 2)
		first := c.Pulse(time.Now())
		listenWith(unit, p.a, p.b)
		p.clocks(2, 2)
		c.Watermark(1, first)
		p.clocks(2, 2)
		second := c.Pulse(time.Now())
		c.Watermark(1, second)
		c.Watermark(0, first)
		p.clocks(2, 2)
		c.Watermark(0, second)
		p.clocks(3, 3)
		if c.Now() != second {
			p.Errorf("the clock of the third is %v, want %v", c.Now(), second)
		}
	})
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t, newLog(t, 0), liveness.Config{Policy: liveness.Policy{Timeout: 10 * time.Second}})
		defer start(t, r)()
		a := addSource(t, r, liveness.SourceConfig{Name: "a", Pool: "pool", Every: time.Minute})
		b := addSource(t, r, liveness.SourceConfig{Name: "b", Pool: "pool"})
		want := func(s *liveness.Source, want time.Duration) {
			t.Helper()
			if got, ok := s.Next(); got != want || ok != (want != 0) {
				t.Errorf("Next of %s = %v, %v, want %v", s.Name(), got, ok, want)
			}
		}
		want(a, 0)
		want(b, 0)
		marked(a)
		want(a, time.Minute)
		want(b, 0)
		marked(a, b)
		want(a, step+50*time.Millisecond)
		want(b, 50*time.Millisecond)
		b.Deafen(time.Now())
		want(a, step+time.Minute)
		if _, err := a.Apply("device", liveness.Signal{}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got, ok := a.Next(); !ok || got >= time.Minute {
			t.Errorf("Next = %v, %v", got, ok)
		}
		if _, err := r.AddSource(liveness.SourceConfig{Name: "c", Every: -1}); err == nil {
			t.Error("a negative Every is accepted")
		}
	})
}

// A session that is abandoned leaves the device as it is.
func TestAbandon(t *testing.T) {
	inPool(t, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit}}, func(p *pooled) {
		new(liveness.Session).Abandon() // never opened
		far := new(peer)
		s := p.openAs("d", liveness.Hello{}, far)
		before := p.device("d")
		p.events()
		s.Abandon()
		s.Abandon()
		after := p.device("d")
		if !before.Connected || after.Connected || after.State != liveness.Online || after.Last != before.Last || after.Deadline != before.Deadline || after.Seq != before.Seq {
			p.Errorf("%+v, then %+v", before, after)
		}
		if s.Beat(p.now()) || s.Close(p.now(), liveness.Closed) {
			p.Error("the session is still open")
		}
		if *far != (peer{}) {
			p.Errorf("the peer was told %+v", *far)
		}
		marked(p.a, p.b)
		elsewhere := new(liveness.Session)
		if _, err := p.b.Open(elsewhere, "d", liveness.Hello{}, nil, p.b.Time(time.Now())); err != nil {
			p.Fatal(err)
		}
		p.want()
		s.Abandon() // it is another's now
		if !elsewhere.Beat(p.b.Time(time.Now())) {
			p.Error("the session elsewhere has ended")
		}
		listenWith(29*unit, p.a, p.b)
		p.wantState("d", liveness.Online)
		elsewhere.Abandon()
		listenWith(2*unit, p.a, p.b)
		p.wantState("d", liveness.Offline)
	})
}

// Nobody can ask a device whose session was abandoned; it is judged when the others are.
func TestAbandonProbed(t *testing.T) {
	inPool(t, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, Probes: 2, ProbeWait: 5 * unit}}, func(p *pooled) {
		s := p.openAs("d", liveness.Hello{}, new(peer))
		listenWith(10*unit, p.a, p.b)
		s.Abandon()
		listenWith(19*unit, p.a, p.b)
		p.wantState("d", liveness.Online)
		listenWith(2*unit, p.a, p.b)
		p.wantState("d", liveness.Offline)
	})
}

// A source that leaves is judged by the others, which forgive the silence of devices that may have
// moved to it.
func TestLeave(t *testing.T) {
	inPool(t, liveness.Config{Policy: liveness.Policy{Timeout: 10 * unit, CloseGrace: 2 * unit}}, func(p *pooled) {
		s := new(liveness.Session)
		if _, err := p.b.Open(s, "of b", liveness.Hello{}, nil, p.b.Time(time.Now())); err != nil {
			p.Fatal(err)
		}
		p.open("of a")
		listenWith(9*unit, p.a, p.b)
		p.open("closed").Close(p.now(), liveness.Closed)
		p.events()
		time.Sleep(step)
		p.a.Watermark(0, p.a.Pulse(time.Now()))
		p.clocks(9, 9)
		s.Abandon()
		p.b.Owner().Leave(time.Now())
		p.b.Owner().Leave(time.Now())
		p.clocks(9.25, 9)
		p.wantState("of b", liveness.Unknown)
		p.wantState("of a", liveness.Online) // it is not unknown
		p.open("later")
		if v := p.b.View(); !v.Absent || !v.Retired || v.DeafSince.IsZero() {
			p.Errorf("%+v", v)
		}
		listenWith(9*unit, p.a)
		for _, id := range []string{"of a", "of b", "closed"} {
			if v := p.device(id); v.State == liveness.Offline || v.NotBefore == 0 {
				p.Errorf("%+v", v)
			}
		}
		var sources []liveness.Type
		for _, e := range p.events() {
			if e.Subject == "gateway/b" {
				sources = append(sources, e.Type)
			}
		}
		if len(sources) != 2 || sources[0] != liveness.SourceDeaf || sources[1] != liveness.SourceHeard {
			p.Errorf("events of the source: %v", sources)
		}
		listenWith(6*unit, p.a)
		for _, id := range []string{"of a", "of b", "closed", "later"} {
			p.wantState(id, liveness.Offline)
		}
	})
}

// A source that has left comes back as a member that was just added.
func TestLeaveAndComeBack(t *testing.T) {
	inPool(t, liveness.Config{Policy: liveness.Policy{Timeout: 10 * unit}}, func(p *pooled) {
		for round, wait := range []time.Duration{0, 5 * unit} { // before others listen for it, and after
			s := new(liveness.Session)
			if _, err := p.b.Open(s, "d", liveness.Hello{}, nil, p.b.Time(time.Now())); err != nil {
				p.Fatal(err)
			}
			listenWith(unit, p.a, p.b)
			s.Abandon()
			p.b.Owner().Leave(time.Now())
			time.Sleep(step)
			listenWith(wait, p.a)
			again := p.addSource(liveness.SourceConfig{Name: "gateway/b", Pool: "gateway", Parts: 2}) // pulses once
			if v := again.View(); again != p.b || v.Absent || v.Retired || !v.DeafSince.IsZero() {
				p.Errorf("%+v", v)
			}
			p.wantState("d", liveness.Unknown)
			held := p.a.Now()
			listenWith(unit, p.a)
			if p.a.Now() != held {
				p.Errorf("round %d: it is not waited for", round)
			}
			both := func() {
				listened := again.Pulse(time.Now())
				again.Watermark(0, listened)
				again.Watermark(1, listened)
			}
			for range 9 * 4 {
				both()
				marked(p.a)
			}
			p.wantState("d", liveness.Unknown) // it has its grace
			for range 8 * 4 {
				both()
				marked(p.a)
			}
			p.wantState("d", liveness.Offline)
			again.Owner().Leave(time.Now())
			p.b = p.addSource(liveness.SourceConfig{Name: "gateway/b", Pool: "gateway"})
		}
	})
}

// What a source was marked up to before it left says nothing of what it reads once it is back, even
// if its listening time goes back to when it was last heard of.
func TestMarksBeforeLeave(t *testing.T) {
	inPool(t, liveness.Config{}, func(p *pooled) {
		listenWith(unit, p.a, p.b)
		for range 4 * 4 { // a holds both
			p.a.Pulse(time.Now())
			marked(p.b)
		}
		p.clocks(1, 1)
		p.b.Owner().Leave(time.Now().Add(-3 * unit))
		time.Sleep(step)
		if b := p.addSource(liveness.SourceConfig{Name: "gateway/b", Pool: "gateway"}); inUnits(b.Time(time.Now())) != 2 {
			p.Errorf("it was heard of at %g, want 2", inUnits(b.Time(time.Now())))
		}
		back := p.units(time.Now())
		for range 8 {
			marked(p.a)
			p.b.Pulse(time.Now())
		}
		if now := p.a.Now(); p.units(p.start.Add(now)) > back {
			p.Errorf("the clock of a is at %g, and b was back at %g", inUnits(now), back)
		}
	})
}

// A source that had left, and was restored after a restart, is judged by others again.
func TestLeftIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, liveness.Config{Policy: liveness.Policy{Timeout: 10 * unit}}, origin)
		b := l.addSource(liveness.SourceConfig{Name: "edge:b", Pool: "edge"})
		s := new(liveness.Session)
		if _, err := b.Open(s, "d", liveness.Hello{}, nil, b.Time(time.Now())); err != nil {
			t.Fatal(err)
		}
		listenWith(unit, l.source, b)
		s.Abandon()
		b.Owner().Leave(time.Now())
		l.listen(unit)
		k.checkpoint(l.registry)
		l.stop()
		l = begin(t, k, liveness.Config{Policy: liveness.Policy{Timeout: 10 * unit}}, origin)
		defer func() { l.stop() }()
		l.listen(2 * unit)
		if v := l.registry.Sources()[1].View(); v.Name != "edge:b" || !v.Absent || !v.Retired {
			t.Errorf("%+v", v)
		}
		l.wantState("d", liveness.Unknown)
		l.listen(12 * unit)
		l.wantState("d", liveness.Offline)
	})
}

// What outlives the process is what the clock read, not how far the source alone had come.
func TestPoolIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(heapMemory)
		r := newRegistry(t, newLog(t, 0), liveness.Config{})
		r.Keeper().UseMemory(m)
		defer start(t, r)()
		a := addSource(t, r, liveness.SourceConfig{Name: "a", Pool: "pool"})
		b := addSource(t, r, liveness.SourceConfig{Name: "b", Pool: "pool"})
		listenWith(unit, a, b)
		time.Sleep(step)
		a.Watermark(0, a.Pulse(time.Now()))
		c, _ := keep.Recall(m.photo())
		rec := keep.SourceRecord{Name: "a"}
		if c.Source(&rec); rec.Listened != unit || !rec.At.Equal(time.Now().Add(-step)) {
			t.Errorf("%+v, want %v", rec, unit)
		}
	})
}

// A member's clock is never beyond what the others have come to, whatever happens at once.
func TestPoolConcurrently(t *testing.T) {
	inPool(t, liveness.Config{}, func(p *pooled) {
		var running sync.WaitGroup
		for _, s := range []*liveness.Source{p.a, p.b} {
			running.Go(func() {
				for range 300 {
					s.Watermark(0, s.Pulse(time.Now()))
					s.Next()
					time.Sleep(time.Millisecond)
				}
			})
		}
		running.Go(func() {
			for i := range 100 {
				c, err := p.registry.AddSource(liveness.SourceConfig{Name: "gateway/c", Pool: []string{"gateway", ""}[i%2]})
				if err != nil {
					p.Error(err)
					return
				}
				s := new(liveness.Session)
				listened := c.Pulse(time.Now())
				if _, err := c.Open(s, "d", liveness.Hello{}, nil, listened); err != nil {
					p.Error(err)
				}
				time.Sleep(time.Millisecond)
				c.Watermark(0, listened)
				s.Abandon()
				c.Owner().Leave(time.Now())
				time.Sleep(time.Millisecond)
			}
		})
		running.Wait()
		listenWith(unit, p.a, p.b)
		if now := p.a.Now(); now != p.a.Time(time.Now()) {
			p.Errorf("the clock is at %v of %v", now, p.a.Time(time.Now()))
		}
	})
}
