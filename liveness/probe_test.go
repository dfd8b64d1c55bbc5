package liveness_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// A device is probed before its verdict, which comes when it would have come anyhow, and without an
// event.
func TestProbes(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Probes: 3, ProbeWait: 4 * unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		p := new(peer)
		r.openAs("a", liveness.Hello{}, p)
		r.openAs("mute", liveness.Hello{}, &peer{mute: true})
		r.open("without")
		if _, err := r.source.Apply("direct", liveness.Signal{At: r.now()}); err != nil {
			r.Fatal(err)
		}
		r.events()
		for _, tt := range []struct {
			at    int
			state liveness.State
			asked int
			last  float64
		}{
			{17, liveness.Online, 0, 0},
			{18, liveness.Suspect, 1, 18},
			{21, liveness.Suspect, 1, 18},
			{22, liveness.Suspect, 2, 22},
			{26, liveness.Suspect, 3, 26},
			{29, liveness.Suspect, 3, 26},
			{30, liveness.Offline, 0, 0},
		} {
			r.listen(time.Duration(tt.at)*unit - r.now())
			v := r.device("a")
			if v.State != tt.state || v.Asked != tt.asked || tt.asked > 0 && r.units(v.AskedAt) != tt.last || p.asked != max(tt.asked, p.asked) {
				r.Errorf("at %d: %v, asked %d times, at %g, %d in all", tt.at, v.State, v.Asked, r.units(v.AskedAt), p.asked)
			}
			if tt.state == liveness.Suspect {
				if st := r.registry.Stats(); st.States[liveness.Suspect] != 1 || st.States[liveness.Online] != 3 {
					r.Errorf("at %d: Stats = %v", tt.at, st.States)
				}
				for _, id := range []string{"mute", "without", "direct"} {
					r.wantState(id, liveness.Online)
				}
			}
		}
		if p.asked != 3 || r.registry.Stats().States[liveness.Suspect] != 0 {
			r.Errorf("asked %d times, %v", p.asked, r.registry.Stats().States)
		}
		for _, e := range r.events() {
			if e.Type != liveness.DeviceOffline || r.units(e.Time) != 30 || r.units(e.Deadline) != 30 {
				r.Error(r.line(&e))
			}
		}
	})
}

// Any heartbeat ends the suspicion; there is an event only if the device had been reported late. A
// connection that ends does so, too.
func TestSuspicionEnds(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Probes: 2, ProbeWait: 4 * unit, LateAfter: 24 * unit, CloseGrace: 3 * unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		p := new(peer)
		s := r.openAs("a", liveness.Hello{}, p)
		r.want("a:1 device.online at 0 seen 0 due 30 silent 0")
		r.listen(23 * unit)
		r.wantState("a", liveness.Suspect)
		s.Beat(r.now())
		r.wantState("a", liveness.Online)
		r.want()
		r.listen(25 * unit)
		r.wantState("a", liveness.Suspect)
		r.want("a:2 device.late at 47 seen 23 due 53 silent 24")
		s.Beat(r.now())
		r.wantState("a", liveness.Online)
		r.want("a:3 device.online at 48 seen 48 due 78 silent 0")
		r.listen(23 * unit)
		s.Close(r.now(), liveness.Closed)
		r.wantState("a", liveness.Online)
		if v := r.device("a"); v.Asked != 0 || !v.AskedAt.IsZero() || p.asked != 3 {
			r.Errorf("asked %d times, %v, %d in all", v.Asked, v.AskedAt, p.asked)
		}
		r.listen(3 * unit)
		r.want("a:4 device.late at 72 seen 48 due 74 silent 24",
			"a:5 device.offline closed at 74 seen 48 due 74 silent 26")
		s = r.openAs("a", liveness.Hello{}, p)
		r.listen(22 * unit)
		r.wantState("a", liveness.Suspect)
		if _, err := s.Sleep(r.now(), 10*unit); err != nil {
			r.Error(err)
		}
		r.wantState("a", liveness.Sleeping)
		r.listen(39 * unit)
		r.wantState("a", liveness.Sleeping) // who said that it would be silent is not asked
		if p.asked != 4 {
			r.Errorf("asked %d times in all", p.asked)
		}
		r.openAs("a", liveness.Hello{}, new(peer))
		r.listen(22 * unit)
		r.wantState("a", liveness.Suspect)
		if err := r.registry.Forget("a"); err != nil {
			r.Error(err)
		}
		for state, n := range r.registry.Stats().States {
			if n != 0 {
				r.Errorf("%d devices are %v", n, state)
			}
		}
	})
}

// No device is probed while its source is cut off; afterwards the rounds are counted back from the
// verdict that was put off.
func TestProbesAfterDeafness(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Probes: 2, ProbeWait: 4 * unit, Interval: unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		p := new(peer)
		r.openAs("a", liveness.Hello{}, p)
		r.listen(27 * unit) // asked at 22 and 26
		r.cut(100 * unit)
		if p.asked != 2 {
			r.Fatalf("asked %d times before the grace", p.asked)
		}
		r.wantState("a", liveness.Unknown)
		r.listen(time.Duration(2.75 * float64(unit))) // the listening time was 27 at the cut; judged at 38, asked at 30 and 34
		if p.asked != 2 {
			r.Errorf("asked %d times", p.asked)
		}
		r.listen(step)
		if p.asked != 3 {
			r.Errorf("asked %d times", p.asked)
		}
		r.listen(7 * unit)
		if v := r.device("a"); p.asked != 4 || v.Asked != 4 || v.State != liveness.Unknown {
			r.Errorf("asked %d times; %+v", p.asked, v)
		}
		r.listen(unit)
		r.wantState("a", liveness.Offline)
	})
}

// A source that is deaf probes no device.
func TestProbesOfTheDeaf(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Probes: 2, ProbeWait: 4 * unit}}
	inRig(t, fleet, liveness.SourceConfig{MaxGap: 2 * unit}, func(r *rig) {
		p := new(peer)
		r.openAs("a", liveness.Hello{}, p)
		r.listen(21*unit + 3*step)
		time.Sleep(step)
		r.source.Deafen(time.Now())
		r.source.Watermark(0, 22*unit)
		r.events()
		if v := r.device("a"); p.asked != 0 || v.Asked != 0 {
			r.Errorf("asked %d times, %+v", p.asked, v)
		}
		time.Sleep(50 * unit)
		r.pulse()
		r.listen(21 * unit)
		if p.asked != 2 {
			r.Errorf("asked %d times", p.asked)
		}
	})
}

func TestProbesPolicy(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    liveness.Policy
		want string
	}{
		{"as long as the timeout", liveness.Policy{Timeout: 30 * s, Probes: 3, ProbeWait: 10 * s}, "Probes × ProbeWait is 30s, want less than Timeout, 30s"},
		{"by default", liveness.Policy{Timeout: 10 * s, Probes: 2}, "is 10s, want less"},
		{"longer than the default timeout", liveness.Policy{Probes: 10, ProbeWait: 9 * s}, "is 1m30s, want less than Timeout, 1m30s"},
		{"negative", liveness.Policy{Probes: -1}, "Probes is -1, want 0 to 100"},
		{"too many", liveness.Policy{Probes: 101}, "Probes is 101"},
		{"negative wait", liveness.Policy{ProbeWait: -1}, "ProbeWait is -1ns"},
		{"just shorter", liveness.Policy{Timeout: 30*s + 1, Probes: 3, ProbeWait: 10 * s}, ""},
	} {
		_, err := liveness.New(newLog(t, 0), liveness.Config{Policy: tt.p})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: New = %v, want %q", tt.name, err, tt.want)
		}
	}
	fleet := liveness.Config{Policy: liveness.Policy{Probes: 5, ProbeWait: 4 * unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		p := new(peer)
		r.openAs("short", liveness.Hello{Announced: liveness.Policy{Timeout: 8 * unit}}, p) // there is room for one question
		r.listen(3 * unit)
		if p.asked != 0 {
			r.Errorf("asked %d times", p.asked)
		}
		r.listen(5 * unit)
		if r.wantState("short", liveness.Offline); p.asked != 1 {
			r.Errorf("asked %d times", p.asked)
		}
		if got := r.registry.Policy().ProbeWait; got != 4*unit {
			r.Errorf("ProbeWait = %v", got)
		}
	})
}
