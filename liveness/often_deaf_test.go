package liveness_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// A source that is deaf again and again forgets the oldest turns of its clock. When a device was heard last does not move with that, and
// time that does not count is not taken for silence.
func TestOftenDeaf(t *testing.T) {
	for name, policy := range map[string]liveness.Policy{
		"plain":  {Timeout: 40 * time.Minute},
		"quiet":  {Timeout: 10 * time.Minute, Quiet: "00:00-02:00 UTC"},
		"expect": {Timeout: 10 * time.Minute, Expect: "0 2 * * * UTC"},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, liveness.Config{Policy: policy}, liveness.SourceConfig{}, func(r *rig) {
				r.open("a")
				seen := r.device("a").LastSeen
				begins := seen
				if policy.Quiet != "" || policy.Expect != "" {
					begins = r.start.Truncate(24 * time.Hour).Add(2 * time.Hour)
				}
				counted := time.Duration(0) // listening time since then
				for {
					v := r.device("a")
					if v.State == liveness.Offline {
						break
					}
					before, at := r.now(), time.Now()
					r.deafen(9 * unit) // it listens for a unit of ten
					if !at.Add(10 * unit).Before(begins) {
						counted += r.now() - before
					}
					if got := r.device("a").LastSeen; !got.Equal(seen) {
						t.Fatalf("at %v it was last seen at %v, want %v", time.Now(), got, seen)
					}
					if counted > (policy.Timeout+v.GraceMax)*16/15 { // what is merged may count for less
						t.Fatalf("P2: not judged after %v of heard silence that counts", counted)
					}
				}
				if counted < policy.Timeout {
					t.Errorf("P1: judged at %v after %v of heard silence that counts, want %v", time.Now(), counted, policy.Timeout)
				}
				if all := r.events(); !all[len(all)-1].LastSeen.Equal(seen) {
					t.Errorf("the event says %v, want %v", all[len(all)-1].LastSeen, seen)
				}
			})
		})
	}
}
