package liveness_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// A device whose session was released has its grace before it is judged or late, and no event.
func TestRelease(t *testing.T) {
	policy := liveness.Policy{Timeout: 6 * unit, Interval: 2 * unit, LateAfter: 4 * unit}
	inRig(t, liveness.Config{Policy: policy}, liveness.SourceConfig{}, func(r *rig) {
		new(liveness.Session).Release(r.now()) // never opened
		far := new(peer)
		s := r.openAs("dies", liveness.Hello{}, far)
		r.open("comes back")
		asleep := r.open("sleeps")
		if _, err := asleep.Sleep(r.now(), 20*unit); err != nil {
			r.Fatal(err)
		}
		r.listen(3 * unit)
		r.events()
		for _, id := range []string{"dies", "comes back", "sleeps"} {
			r.sessions[id].Release(r.now())
			r.sessions[id].Release(r.now() + unit) // it has ended
		}
		if *far != (peer{}) || s.Beat(r.now()) {
			r.Errorf("the peer was told %+v, or the session is open", *far)
		}
		if v := r.device("dies"); v.Connected || !v.Released || v.Closing != liveness.NoReason || inUnits(v.NotBefore) != 15 || r.units(v.Deadline) != 15 {
			r.Errorf("%+v, want a deadline at 15", v)
		}
		r.listen(11 * unit)
		r.wantState("dies", liveness.Online)
		r.open("comes back")
		if v := r.device("comes back"); v.Released || v.NotBefore != 0 {
			r.Errorf("%+v, want one that was not released", v)
		}
		r.want()
		r.listen(2 * unit)
		r.want("dies:2 device.offline silence at 15 seen 0 due 15 silent 15")
		r.sessions["comes back"].Beat(r.now())
		r.listen(9 * unit)
		r.wantState("sleeps", liveness.Sleeping)
		r.events()
		r.listen(3 * unit)
		r.want("sleeps:3 device.offline silence at 26 seen 0 due 26 silent 26")
	})
}

// A grace that ends before the timeout does changes nothing, and one that is late stays so.
func TestReleaseLate(t *testing.T) {
	policy := liveness.Policy{Timeout: 40 * unit, Interval: 2 * unit, LateAfter: 4 * unit}
	inRig(t, liveness.Config{Policy: policy}, liveness.SourceConfig{}, func(r *rig) {
		s := r.open("d")
		r.listen(5 * unit)
		r.events()
		s.Release(r.now())
		r.wantState("d", liveness.Late)
		r.listen(36 * unit)
		r.want("d:3 device.offline silence at 40 seen 0 due 40 silent 40")
	})
}

// A device that was being asked for a sign of life when its session was released is not any more.
func TestReleaseSuspect(t *testing.T) {
	policy := liveness.Policy{Timeout: 30 * unit, Interval: 2 * unit, Probes: 2, ProbeWait: 5 * unit}
	inRig(t, liveness.Config{Policy: policy}, liveness.SourceConfig{}, func(r *rig) {
		s := r.openAs("d", liveness.Hello{}, &peer{})
		r.listen(21 * unit)
		s.Release(r.now())
		r.wantState("d", liveness.Online)
		r.listen(12*unit - step)
		r.wantState("d", liveness.Online)
		r.listen(step)
		r.wantState("d", liveness.Offline)
		if st := r.registry.Stats(); st.States[liveness.Offline] != 1 || st.States[liveness.Suspect] != 0 {
			r.Errorf("the states are counted as %v", st.States)
		}
	})
}

// A source that ended in order is judged by others' clocks at once: nobody is unknown, no device of
// others waits, and there is no event.
func TestRetireInOrder(t *testing.T) {
	inPool(t, liveness.Config{Policy: liveness.Policy{Timeout: 10 * unit, Interval: 2 * unit}}, func(p *pooled) {
		s := new(liveness.Session)
		if _, err := p.b.Open(s, "of b", liveness.Hello{}, nil, p.b.Time(time.Now())); err != nil {
			p.Fatal(err)
		}
		p.open("of a")
		listenWith(4*unit, p.a, p.b)
		p.events()
		s.Release(p.b.Time(time.Now())) // at 4
		p.b.Owner().Retire()
		p.b.Owner().Retire()
		if v := p.b.View(); !v.Absent || !v.Retired || !v.DeafSince.IsZero() {
			p.Errorf("%+v", v)
		}
		p.wantState("of b", liveness.Online)
		if v := p.device("of a"); v.NotBefore != 0 {
			p.Errorf("a device of another source waits: %+v", v)
		}
		listenWith(5*unit, p.a)
		p.want()
		listenWith(2*unit, p.a)
		p.wantState("of a", liveness.Offline)
		listenWith(4*unit, p.a) // at 15
		p.wantState("of b", liveness.Online)
		listenWith(3*unit, p.a) // at 18, and the clock of b follows a second or so later
		p.wantState("of b", liveness.Offline)
		for _, e := range p.events() {
			if e.Type != liveness.DeviceOffline || e.Reason != liveness.Silence {
				p.Errorf("event %s", p.line(&e))
			}
		}
		again := p.addSource(liveness.SourceConfig{Name: "gateway/b", Pool: "gateway"})
		listenWith(unit, p.a, again)
		if v := again.View(); again != p.b || v.Absent || v.Retired || len(v.Deaf) != 0 {
			p.Errorf("it is back as %+v", v)
		}
	})
}
