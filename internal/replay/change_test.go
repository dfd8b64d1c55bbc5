package replay_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/replay"
)

func TestChanges(t *testing.T) {
	inRig(t, func(r *rig) {
		r.open("steady")
		r.open("other")
		r.beats(60, "steady", "other")
		r.listen(2*time.Minute + 30*time.Second) // an outage beyond any deadline
		r.checkpoint()
		r.open("steady")
		r.beats(20, "steady")
		r.checkpoint()
		changes, err := replay.New(r.registry, &r.memory).Changes(t.Context(), []string{"steady", "nobody"}, time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		c, ok := changes["steady"]
		if len(changes) != 1 || !ok {
			t.Fatalf("Changes = %+v, want those of one device", changes)
		}
		if c.FalseAlarms != 0 || c.Before != 0 || c.Sooner != 1 || c.SoonerBy <= 0 || c.Later != 0 {
			t.Errorf("what the learned deadline would have changed is %+v, want that the outage is seen sooner", c)
		}
	})
}
