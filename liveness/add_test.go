package liveness_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holter-iot/holter/liveness"
)

// A device that is added is known, with its policy, and is judged once it was heard.
func TestAdd(t *testing.T) {
	fleet := liveness.Config{MaxDevices: 2, Devices: map[string]liveness.Policy{"configured": {}}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		if err := r.registry.Add("a", liveness.Policy{Timeout: 20 * unit}); err != nil {
			r.Fatal(err)
		}
		if got := r.events(); len(got) != 1 || got[0].ID() != "a:1" || got[0].Type != liveness.DeviceChanged {
			r.Errorf("events: %+v", got)
		}
		r.listen(100 * unit)
		if v := r.device("a"); v.State != liveness.NeverSeen || !v.Own || v.Policy.Timeout != 20*unit {
			r.Errorf("before it is heard: %+v", v)
		}
		for _, tt := range []struct {
			name, id string
			policy   liveness.Policy
			want     error
		}{
			{"known", "a", liveness.Policy{Timeout: 30 * unit}, liveness.ErrKnownDevice},
			{"configured", "configured", liveness.Policy{Timeout: 30 * unit}, liveness.ErrKnownDevice},
			{"no room", "b", liveness.Policy{Timeout: 30 * unit}, liveness.ErrFull},
			{"bad id", " ", liveness.Policy{Timeout: 30 * unit}, liveness.ErrInvalidID},
		} {
			if err := r.registry.Add(tt.id, tt.policy); !errors.Is(err, tt.want) {
				r.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		}
		if err := r.registry.Add("c", liveness.Policy{Timeout: -1}); err == nil || !strings.Contains(err.Error(), "Timeout") {
			r.Errorf("bad policy: %v", err)
		}
		if v := r.device("a"); v.Policy.Timeout != 20*unit {
			r.Errorf("after an error: %+v", v)
		}
	})
}

func TestAddedIsJudged(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		if err := r.registry.Add("a", liveness.Policy{Timeout: 20 * unit}); err != nil {
			r.Fatal(err)
		}
		r.events()
		r.open("a")
		r.listen(20 * unit)
		r.want(
			"a:2 device.online at 0 seen 0 due 20 silent 0",
			"a:3 device.offline silence at 20 seen 0 due 20 silent 20",
		)
	})
}
