package gateway

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

func TestTally(t *testing.T) {
	var c rateWindow[string, int]
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
			c.add(now, "a")
		}
		if got := c.count(now, "a"); got != s.count {
			t.Errorf("after %v: count = %d, want %d", s.at, got, s.count)
		}
		if got := c.above(now, 3); got != s.above {
			t.Errorf("after %v: above = %d, want %d", s.at, got, s.above)
		}
		if got := c.count(now, "b"); got != 0 {
			t.Errorf("after %v: another key has %d", s.at, got)
		}
	}
}

func TestTallyNotes(t *testing.T) {
	var c rateWindow[string, int]
	now := time.Unix(1_000_000, 0)
	set := func(to int) int { return c.note(now, "a", func(n *int) { *n = to }) }
	if before := set(1); before != 0 {
		t.Errorf("before anything the note is %d", before)
	}
	c.add(now, "a")
	if before := set(2); before != 0 {
		t.Errorf("the note on a key that was not counted was kept: %d", before)
	}
	now = now.Add(time.Minute)
	if before := set(3); before != 2 {
		t.Errorf("a minute later the note is %d, want 2", before)
	}
	if got := c.count(now, "a"); got != 1 {
		t.Errorf("the note counted: %d", got)
	}
	now = now.Add(time.Minute)
	c.add(now, "a")
	if before := set(4); before != 3 {
		t.Errorf("two minutes later the note is %d, want 3", before)
	}
	now = now.Add(2 * time.Minute)
	if before := set(5); before != 0 {
		t.Errorf("the note %d was not forgotten", before)
	}
}

func TestTallyIsBounded(t *testing.T) {
	var c rateWindow[int, int]
	now := time.Unix(1_000_000, 0)
	for key := range mostCounted + 1000 {
		c.add(now, key)
	}
	if n := len(c.current); n != mostCounted {
		t.Errorf("%d keys are kept, want %d", n, mostCounted)
	}
	if known, late := c.add(now, 1), c.add(now, mostCounted+1); known != 2 || late != 0 {
		t.Errorf("a key that is known has %d, want 2; one that came too late %d, want 0", known, late)
	}
	now = now.Add(time.Minute)
	c.add(now, 1)
	for key := range mostCounted + 1000 {
		c.note(now, key, func(n *int) { *n++ })
	}
	if n := len(c.current); n > mostCounted {
		t.Errorf("notes made it %d keys", n)
	}
}

func TestFailures(t *testing.T) {
	var f failures
	now := time.Unix(1_000_000, 0)
	for i := range maxFailures {
		f.fail(now, netip.MustParseAddr("192.0.2.1"), "a")
		f.fail(now, netip.MustParseAddr("2001:db8:1:2::"+strconv.Itoa(i)), "a")
	}
	for i := range maxFromAddress {
		f.fail(now, netip.MustParseAddr("192.0.2.9"), strconv.Itoa(i))
	}
	for range maxFailures {
		f.fail(now, netip.MustParseAddr("192.0.2.3"), strings.Repeat("x", 4000))
	}
	tests := []struct {
		address, id string
		want        bool
	}{
		{"192.0.2.1", "a", false},
		{"::ffff:192.0.2.1", "a", false}, // the same, in IPv6
		{"192.0.2.1", "b", true},         // its neighbour
		{"192.0.2.2", "a", true},
		{"2001:db8:1:2:ffff::1", "a", false}, // the same network of 64 bits
		{"2001:db8:1:2:ffff::1", "b", true},
		{"2001:db8:1:3::1", "a", true},
		{"fe80::1%eth0", "a", true},
		{"192.0.2.9", "b", false}, // one after the other tried
		{"192.0.2.3", strings.Repeat("x", 4001), false},
	}
	for _, tt := range tests {
		if got := f.allow(now, netip.MustParseAddr(tt.address), tt.id); got != tt.want {
			t.Errorf("allow(%s, %.10s) = %v, want %v", tt.address, tt.id, got, tt.want)
		}
	}
	if later := now.Add(2 * time.Minute); !f.allow(later, netip.MustParseAddr("192.0.2.1"), "a") || !f.allow(later, netip.MustParseAddr("192.0.2.9"), "b") {
		t.Error("it is not forgiven")
	}
	for key := range f.devices.before {
		if len(key.id) > liveness.MaxID {
			t.Errorf("an id of %d bytes is kept", len(key.id))
		}
	}
}

// TestDuplicateIDs: the id may be a part of a buffer that changes; the duplicateIDs keep none of
// it.
func TestDuplicateIDs(t *testing.T) {
	var w duplicateIDs
	now := time.Now()
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	if w.opened(now, "x", a); w.contested(now, "x") {
		t.Error("contested before anything happened")
	}
	for range maxTakeovers {
		if w.contested(now, "x") {
			t.Error("contested too early")
		}
		w.replaced("x")
		w.opened(now, "x", a)
	}
	for minute := range 5 {
		later := now.Add(time.Duration(minute) * time.Minute)
		if !w.contested(later, "x") || w.above(later, maxTakeovers) != 1 {
			t.Fatalf("not contested after %d minutes of trying", minute)
		}
		for range maxTakeovers {
			holder, first := w.refused(later, "x")
			if holder != a || first != (minute == 0 && w.told.Load() == 0) {
				t.Errorf("after %d minutes: held by %v, first %v", minute, holder, first)
			}
			w.told.Store(1)
		}
	}
	later := now.Add(5 * time.Minute)
	w.opened(later, "x", b)
	if holder, first := w.refused(later, "x"); holder != b || first {
		t.Errorf("held by %v, first %v, want %v", holder, first, b)
	}
	if later = later.Add(2 * time.Minute); w.contested(later, "x") || w.above(later, maxTakeovers) != 0 {
		t.Error("still contested, although nobody has tried for two minutes")
	}
}
