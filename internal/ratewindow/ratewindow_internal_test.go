package ratewindow

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	var c Window[string, int]
	start := time.Unix(1_000_000, 0)
	steps := []struct {
		at    time.Duration
		add   int
		count int // of the worse of both minutes
		above int // keys with 3 at least
	}{
		{0, 0, 0, 0},
		{0, 2, 2, 0},
		{59 * time.Second, 1, 3, 1},
		{60 * time.Second, 0, 3, 1},                  // the minute before
		{90 * time.Second, 2, 3, 1},                  // fewer than then
		{100 * time.Second, 2, 4, 1},                 // more, and not counted twice
		{120 * time.Second, 0, 4, 1},                 // those of 90 s and 100 s are the minute before now
		{180 * time.Second, 0, 0, 0},                 // forgotten
		{181 * time.Second, 1, 1, 0},                 // anew
		{181*time.Second + 119*time.Second, 0, 0, 0}, // nothing was asked for a while
		{300 * time.Second, 2, 2, 0},
		{419 * time.Second, 0, 2, 0}, // asked late in a minute, which began at 360 s
		{420 * time.Second, 0, 0, 0}, // forgotten, two minutes after
	}
	for _, s := range steps {
		now := start.Add(s.at)
		for range s.add {
			c.Add(now, "a")
		}
		if got := c.Count(now, "a"); got != s.count {
			t.Errorf("after %v: count = %d, want %d", s.at, got, s.count)
		}
		if got := c.Above(now, 3); got != s.above {
			t.Errorf("after %v: above = %d, want %d", s.at, got, s.above)
		}
		if got := c.Count(now, "b"); got != 0 {
			t.Errorf("after %v: another key has %d", s.at, got)
		}
	}
}

func TestNotes(t *testing.T) {
	var c Window[string, int]
	now := time.Unix(1_000_000, 0)
	set := func(to int) int { return c.Note(now, "a", func(n *int) { *n = to }) }
	if before := set(1); before != 0 {
		t.Errorf("before anything the note is %d", before)
	}
	c.Add(now, "a")
	if before := set(2); before != 0 {
		t.Errorf("the note on a key that was not counted was kept: %d", before)
	}
	now = now.Add(time.Minute)
	if before := set(3); before != 2 {
		t.Errorf("a minute later the note is %d, want 2", before)
	}
	if got := c.Count(now, "a"); got != 1 {
		t.Errorf("the note counted: %d", got)
	}
	now = now.Add(time.Minute)
	c.Add(now, "a")
	if before := set(4); before != 3 {
		t.Errorf("two minutes later the note is %d, want 3", before)
	}
	now = now.Add(2 * time.Minute)
	if before := set(5); before != 0 {
		t.Errorf("the note %d was not forgotten", before)
	}
}

func TestBounded(t *testing.T) {
	var c Window[int, int]
	now := time.Unix(1_000_000, 0)
	for key := range mostKeys + 1000 {
		c.Add(now, key)
	}
	if n := len(c.current); n != mostKeys {
		t.Errorf("%d keys are kept, want %d", n, mostKeys)
	}
	if known, late := c.Add(now, 1), c.Add(now, mostKeys+1); known != 2 || late != 0 {
		t.Errorf("a key that is known has %d, want 2; one that came too late %d, want 0", known, late)
	}
	now = now.Add(time.Minute)
	c.Add(now, 1)
	for key := range mostKeys + 1000 {
		c.Note(now, key, func(n *int) { *n++ })
	}
	if n := len(c.current); n > mostKeys {
		t.Errorf("notes made it %d keys", n)
	}
}
