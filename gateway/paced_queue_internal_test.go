package gateway

import (
	"slices"
	"testing"
)

// here is a located that is nowhere.
type here int

func (here) where() *loop { return nil }

// TestPacedQueue: each step takes as many as the rate allows, or a share of those that wait; the
// oldest of too many are dropped.
func TestPacedQueue(t *testing.T) {
	const crowd = 1000
	for _, tt := range []struct {
		name                string
		shares, most        int
		want                []int // how many the first steps take
		firstTaken, dropped int
	}{
		{name: "rate", want: []int{2, 2}},
		{name: "share", shares: 100, want: []int{crowd / 100, crowd/100 - 1}},
		{name: "bound", most: 300, want: []int{2, 2}, firstTaken: crowd - 300, dropped: crowd - 300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var dropped []here
			q := pacedQueue[here]{shares: tt.shares, most: tt.most, drop: func(i here) { dropped = append(dropped, i) }}
			q.init(200, nil)
			for i := range here(crowd) {
				q.add(i)
			}
			next := here(tt.firstTaken)
			for step, want := range tt.want {
				taken := q.takeDue()
				if len(taken) != want || taken[0] != next {
					t.Errorf("step %d took %v, want %d from %d on", step, taken, want, next)
				}
				next += here(want)
			}
			if len(dropped) != tt.dropped || !slices.IsSorted(dropped) {
				t.Errorf("%d were dropped, want the oldest %d", len(dropped), tt.dropped)
			}
		})
	}
}
