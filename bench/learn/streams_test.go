package learn

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestStreams checks the gaps of each stream in the first ten days: how many, their median, and how many are
// much longer.
func TestStreams(t *testing.T) {
	tests := map[string]struct {
		perDay      float64 // heartbeats
		median      time.Duration
		least, most float64 // share of the gaps that are longer than 2.5 medians
	}{
		"A": {1438, time.Minute, 0, 0.0002},
		"B": {1417, time.Minute, 0.0015, 0.005},
		"C": {86.4, 907 * time.Second, 0.005, 0.015},
		"D": {440, 88 * time.Second, 0.1, 0.25},
		"E": {1403, 30 * time.Second, 0.18, 0.26},
		"F": {1437, 30 * time.Second, 0.005, 0.02},
		"G": {1437, time.Minute, 0, 0.0003},
	}
	for _, s := range streams() {
		t.Run(s.name, func(t *testing.T) {
			want, all, over := tests[s.name], []time.Duration(nil), 0.0
			for i := range 40 {
				d := &source{r: rand.New(rand.NewPCG(1, uint64(i)))}
				for d.now < 10*day {
					gap := s.next(d)
					d.now += gap
					all = append(all, gap)
				}
			}
			slices.Sort(all)
			median := all[len(all)/2]
			for _, gap := range all {
				if gap > median*5/2 {
					over += 1 / float64(len(all))
				}
			}
			perDay := float64(len(all)) / 400
			if r := perDay / want.perDay; r < 0.9 || r > 1.1 {
				t.Errorf("%v heartbeats a day, want %v", perDay, want.perDay)
			}
			if r := float64(median) / float64(want.median); r < 0.97 || r > 1.03 {
				t.Errorf("median %v, want %v", median, want.median)
			}
			if all[0] <= 0 || over < want.least || over > want.most {
				t.Errorf("%.5f of the gaps are longer than 2.5 medians, want %v to %v; the shortest: %v", over, want.least, want.most, all[0])
			}
		})
	}
}

func TestOutages(t *testing.T) {
	s, n := &source{r: rand.New(rand.NewPCG(1, 2))}, 0
	for range 100_000 {
		d := s.outage(time.Hour)
		if d == 0 {
			continue
		}
		if n++; d < time.Hour || d > day {
			t.Errorf("an outage of %v", d)
		}
	}
	if n < 35 || n > 50 { // 1 % of 4,167 days
		t.Errorf("%d outages, want about 42", n)
	}
}
