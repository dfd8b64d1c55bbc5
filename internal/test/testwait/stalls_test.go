package testwait

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBetween(t *testing.T) {
	base := time.Now()
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	s := &Stalls{list: []stall{{at(100), at(200)}, {at(300), at(350)}}}
	for _, tt := range []struct{ from, to, want int }{
		{0, 400, 150}, {0, 100, 0}, {150, 320, 70}, {110, 130, 20}, {200, 300, 0}, {350, 1000, 0},
	} {
		if got := s.Between(at(tt.from), at(tt.to)); got != time.Duration(tt.want)*time.Millisecond {
			t.Errorf("Between(%d, %d) = %v, want %d ms", tt.from, tt.to, got, tt.want)
		}
	}
}

// Where nothing stalls there is no stall.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, begun := Watch(t), time.Now()
		time.Sleep(time.Minute)
		if sum := s.Between(begun, time.Now()); sum != 0 {
			t.Errorf("stalls of %v in a minute without any", sum)
		}
	})
}
