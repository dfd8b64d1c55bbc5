package fleet

import (
	"testing"
	"time"
)

func TestRounds(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := rounds{start: start, interval: time.Second, n: 3}
	for i, want := range []time.Duration{0, 333333333, 666666666, time.Second, 1333333333} {
		if got := r.planned().Sub(start); got != want || r.device() != i%3 {
			t.Errorf("heartbeat %d: device %d after %v, want %d after %v", i, r.device(), got, i%3, want)
		}
		r.beat++
	}
	for _, c := range []struct {
		now          time.Duration
		skipped      int
		device, beat int
	}{
		{2 * time.Second, 0, 2, 5},                      // planned at 1.67 s
		{2*time.Second + 666*time.Millisecond, 0, 2, 5}, // not quite a round behind
		{2*time.Second + 667*time.Millisecond, 1, 2, 8},
		{10 * time.Second, 7, 2, 29},
		{0, 0, 2, 29},
	} {
		if got := r.skip(start.Add(c.now)); got != c.skipped || r.device() != c.device || r.beat != c.beat {
			t.Errorf("skip(%v) = %d, then beat %d; want %d, %d", c.now, got, r.beat, c.skipped, c.beat)
		}
	}
}
