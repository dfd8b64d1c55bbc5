package server

import (
	"testing"
	"time"
)

// The watchdog is fed while every count grows, however slowly, and not while one stands still.
func TestWatchdog(t *testing.T) {
	const s = time.Second
	type look struct {
		at     time.Duration
		counts []uint64
		want   bool
	}
	for _, c := range []struct {
		name  string
		looks []look
	}{
		{"all grow, and it is fed no more often than asked", []look{
			{0, []uint64{1, 1}, true},
			{1 * s, []uint64{2, 2}, false},
			{6 * s, []uint64{3, 3}, true},
			{11 * s, []uint64{4, 4}, false},
			{12 * s, []uint64{5, 5}, true},
		}},
		{"one stands still", []look{
			{0, []uint64{1, 1}, true},
			{9 * s, []uint64{2, 1}, true},
			{10 * s, []uint64{3, 1}, false},
			{20 * s, []uint64{4, 1}, false},
			{60 * s, []uint64{5, 1}, false},
			{61 * s, []uint64{6, 2}, true},
		}},
		{"overload: each grows once in nine seconds", []look{
			{0, []uint64{1, 1}, true},
			{9 * s, []uint64{2, 2}, true},
			{18 * s, []uint64{3, 3}, true},
			{27 * s, []uint64{4, 4}, true},
		}},
		{"stopped and continued: it hears again within a look", []look{
			{0, []uint64{1, 1}, true},
			{50 * s, []uint64{1, 1}, false},
			{50*s + s/2, []uint64{2, 2}, true},
		}},
		{"nothing to hear", []look{{0, nil, true}, {6 * s, nil, true}, {12 * s, nil, true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var counts []uint64
			r, dog, began := &activity{progress: func() []uint64 { return counts }}, watchdog{}, time.Unix(1, 0)
			for _, l := range c.looks {
				counts = l.counts
				if got := dog.due(began.Add(l.at), r, 6*s); got != l.want {
					t.Errorf("after %v, with %v: due = %v, want %v", l.at, l.counts, got, l.want)
				}
			}
		})
	}
}

// Another role has counts of its own, which begin to be looked at when it does.
func TestWatchdogOfAnotherRole(t *testing.T) {
	judge := &activity{progress: func() []uint64 { return []uint64{7, 7} }}
	standby, starting := &activity{progress: func() []uint64 { return []uint64{7} }}, &activity{}
	var dog watchdog
	now := time.Unix(1, 0)
	for i, step := range []struct {
		role  *activity
		after time.Duration
		want  bool
	}{
		{judge, 0, true},
		{judge, 20 * time.Second, false},
		{standby, time.Second, true},
		{standby, 20 * time.Second, false},
		{starting, time.Second, true},
		{starting, time.Hour, true},
		{judge, time.Second, true},
	} {
		now = now.Add(step.after)
		if got := dog.due(now, step.role, time.Second); got != step.want {
			t.Errorf("step %d: due = %v, want %v", i, got, step.want)
		}
	}
}
