package gateway

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/clientprefix"
	"github.com/holter-iot/holter/liveness"
)

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
	long := strings.Repeat("x", liveness.MaxID)
	if from := clientprefix.Of(netip.MustParseAddr("192.0.2.3")); f.devices.Count(now, guess{from, long}) != maxFailures {
		t.Errorf("a long id is not cut to %d bytes", len(long))
	}
	if later := now.Add(2 * time.Minute); !f.allow(later, netip.MustParseAddr("192.0.2.1"), "a") || !f.allow(later, netip.MustParseAddr("192.0.2.9"), "b") {
		t.Error("it is not forgiven")
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
		if !w.contested(later, "x") || w.Above(later, maxTakeovers) != 1 {
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
	if later = later.Add(2 * time.Minute); w.contested(later, "x") || w.Above(later, maxTakeovers) != 0 {
		t.Error("still contested, although nobody has tried for two minutes")
	}
}
