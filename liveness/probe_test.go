package liveness_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

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
		if got := r.registry.Operator().Policy().ProbeWait; got != 4*unit {
			r.Errorf("ProbeWait = %v", got)
		}
	})
}
