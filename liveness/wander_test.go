package liveness_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// inDatagrams is inPool with members whose devices have no connections.
func inDatagrams(t *testing.T, f func(p *pooled)) {
	t.Helper()
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, Interval: 20 * unit}}
	inRig(t, fleet, liveness.SourceConfig{Name: "udp/a", Pool: "gateway", Connectionless: true}, func(r *rig) {
		f(&pooled{r, r.source, r.addSource(liveness.SourceConfig{Name: "udp/b", Pool: "gateway", Connectionless: true})})
	})
}

// openBy opens a session at a source.
func (p *pooled) openBy(s *liveness.Source, id string, peer liveness.Peer) (*liveness.Session, liveness.Welcome) {
	p.Helper()
	session := new(liveness.Session)
	w, err := s.Open(session, id, liveness.Hello{}, peer, s.Time(time.Now()))
	if err != nil {
		p.Fatal(err)
	}
	return session, w
}

// A device without a connection is heard now here, now there: that is no event, and one session. What
// was heard before it was heard elsewhere counts when it is told late.
func TestWandering(t *testing.T) {
	inDatagrams(t, func(p *pooled) {
		far := new(peer)
		first, w := p.openBy(p.a, "d", far)
		listenWith(unit, p.a, p.b)
		read := p.a.Time(time.Now())
		listenWith(unit, p.a, p.b)
		second, w2 := p.openBy(p.b, "d", nil)
		if w.Epoch != 1 || w2.Epoch != 1 || far.replaced != 1 || first.Beat(read) || !second.Beat(p.b.Time(time.Now())) {
			p.Errorf("epochs %d and %d, replaced %d times", w.Epoch, w2.Epoch, far.replaced)
		}
		late := new(liveness.Session)
		if _, err := p.a.Open(late, "d", liveness.Hello{}, nil, read); err != nil {
			p.Errorf("what another source has read before is refused: %v", err)
		}
		if v := p.device("d"); v.Source != "udp/a" || p.units(v.LastSeen) != 2 {
			p.Errorf("heard by %s at %g", v.Source, p.units(v.LastSeen))
		}
		listenWith(2*unit, p.a, p.b)
		p.a.Owner().Belated("d", time.Now(), unit)
		p.a.Owner().Belated("d", time.Now(), 2*unit)
		p.a.Owner().Belated("unknown", time.Now(), 0)
		if v := p.device("d"); v.Source != "udp/a" || p.units(v.LastSeen) != 3 || p.registry.Operator().Known("unknown") {
			p.Errorf("heard by %s at %g", v.Source, p.units(v.LastSeen))
		}
		p.want("d:1 device.online at 0 seen 0 due 30 silent 0")
	})
}

// A session that is opened anew where the one before was, of whose end nothing is known, is the same, too.
func TestReopenedWithoutConnection(t *testing.T) {
	inDatagrams(t, func(p *pooled) {
		first, _ := p.openBy(p.a, "d", nil)
		_, w := p.openBy(p.a, "d", nil)
		if w.Epoch != 1 || first.Beat(p.now()) {
			t.Errorf("the epoch is %d", w.Epoch)
		}
		p.want("d:1 device.online at 0 seen 0 due 30 silent 0")
	})
}

// A device whose source is gone is heard where it was heard last; one that sleeps goes on to.
func TestBelatedElsewhere(t *testing.T) {
	inDatagrams(t, func(p *pooled) {
		for _, id := range []string{"d", "asleep"} {
			s, _ := p.openBy(p.b, id, nil)
			if id == "asleep" {
				if _, err := s.Sleep(p.b.Time(time.Now()), time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			s.Abandon()
		}
		listenWith(2*unit, p.a, p.b)
		p.b.Owner().Leave(time.Now())
		listenWith(4*unit, p.a)
		for _, id := range []string{"d", "asleep"} {
			p.a.Owner().Belated(id, time.Now(), unit)
		}
		p.wantState("asleep", liveness.Sleeping)
		if v := p.device("d"); v.State != liveness.Online || v.Source != "udp/a" || p.units(v.LastSeen) != 5 {
			t.Errorf("the device is %v, heard by %s at %g", v.State, v.Source, p.units(v.LastSeen))
		}
	})
}

// A goodbye is not taken back by what was heard before.
func TestBelatedAfterBye(t *testing.T) {
	inDatagrams(t, func(p *pooled) {
		p.openBy(p.a, "d", nil)
		listenWith(unit, p.a, p.b)
		s, _ := p.openBy(p.b, "d", nil)
		s.Bye(p.b.Time(time.Now()))
		p.a.Owner().Belated("d", time.Now(), unit)
		p.wantState("d", liveness.Offline)
		listenWith(3*unit, p.a, p.b)
		p.a.Owner().Belated("d", time.Now(), 0)
		p.wantState("d", liveness.Online)
	})
}

// A heartbeat that died with a source, or that did not get into it, may have been of a device that
// another one heard last: it has time for the next. It is judged if that does not come.
func TestLostDatagram(t *testing.T) {
	for name, lose := range map[string]func(p *pooled){
		"left": func(p *pooled) { p.b.Owner().Leave(time.Now()) },
		"deaf": func(p *pooled) { p.b.Deafen(time.Now()) },
		"deaf still": func(p *pooled) {
			p.b.Deafen(time.Now().Add(-unit))
			p.b.Deafen(time.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inDatagrams(t, func(p *pooled) {
				c := p.addSource(liveness.SourceConfig{Name: "tcp/c", Pool: "gateway"})
				p.openBy(p.a, "d", nil)
				p.openBy(c, "connected", nil)
				listenWith(25*unit, p.a, p.b, c)
				lose(p)
				listenWith(24*unit, p.a, c)
				p.wantState("d", liveness.Online)
				p.wantState("connected", liveness.Offline)
				listenWith(8*unit, p.a, c)
				p.wantState("d", liveness.Offline)
			})
		})
	}
}
