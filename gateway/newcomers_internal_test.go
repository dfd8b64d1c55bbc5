package gateway

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// There is room for three, two of each address when there is none, and for all for a while.
func TestNewcomers(t *testing.T) {
	a, b, none := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.Addr{}
	c := make([]*connection, 12)
	for i := range c {
		c[i] = new(connection)
	}
	var n newcomers
	n.init(3, 2)
	begin := time.Now()
	expect := func(what string, got []*connection, want ...*connection) {
		t.Helper()
		if !slices.Equal(got, want) {
			var goes []int
			for _, one := range got {
				goes = append(goes, slices.Index(c, one))
			}
			t.Errorf("%s: these go: %v", what, goes)
		}
	}
	enter := func(i int, address netip.Addr, after time.Duration) []*connection {
		return n.enter(c[i], address, begin.Add(after))
	}
	expect("room", enter(0, b, 0))
	expect("room", enter(1, a, 0))
	expect("room for an address, as there is some for all", enter(2, a, 0))
	expect("none has been silent for long", enter(3, a, helloWithin-1))
	expect("the address has more than its share, and then all are too many", enter(4, a, helloWithin), c[1], c[2])
	expect("the oldest", enter(5, none, helloWithin), c[0])
	expect("those without an address have no share, and the others are young", enter(6, none, helloWithin))
	n.back(c[7], none, begin.Add(helloWithin))
	if n.count() != 5 {
		t.Errorf("%d, want 5: nobody goes for one that comes back", n.count())
	}
	n.back(c[3], b, begin.Add(helloWithin)) // a PROXY header has named it; now it is the youngest
	n.leave(c[5])
	n.leave(c[5])
	expect("no more than two at a time", enter(8, none, 2*helloWithin), c[4], c[6])
	for _, want := range []*connection{c[7], c[3], c[8], nil} {
		if got := n.oldest(b); got != want {
			t.Errorf("the oldest is %d, want %d", slices.Index(c, got), slices.Index(c, want))
		}
	}
	if n.count() != 0 || len(n.addresses) != 0 || len(n.known) != 0 {
		t.Errorf("%d newcomers, %d addresses, %d known, want nothing", n.count(), len(n.addresses), len(n.known))
	}
}

// Of those that hold there are never more than the limit, nor of an address than its share. The oldest goes once
// it has had its time, and before that the one that comes.
func TestHold(t *testing.T) {
	a, b, begin := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), time.Now()
	a1, a2, a3, b1, b2 := new(connection), new(connection), new(connection), new(connection), new(connection)
	var n newcomers
	n.init(3, 2)
	for i, step := range []struct {
		at   int // in seconds
		c    *connection
		from netip.Addr
		goes *connection
		ok   bool
	}{
		{0, b1, b, nil, true},
		{1, a1, a, nil, true},
		{1, a2, a, nil, true},
		{2, a1, a, nil, true}, // it is there
		{2, a3, a, nil, false},
		{3, a3, a, a1, true},
		{9, a1, a, nil, false}, // it has to go
		{1, b2, b, nil, false},
		{9, b2, b, b1, true},
	} {
		if goes, ok := n.hold(step.c, step.from, begin.Add(time.Duration(step.at)*time.Second), 2*time.Second); ok != step.ok || goes != step.goes {
			t.Errorf("step %d: %v, and one goes: %v; want %v, %v", i, ok, goes != nil, step.ok, step.goes != nil)
		}
	}
	if n.count() != 3 {
		t.Errorf("%d, want 3", n.count())
	}
	for _, c := range []*connection{a1, a2, a3, b1, b2} {
		n.leave(c)
	}
	if n.count() != 0 || len(n.known) != 0 || len(n.addresses) != 0 {
		t.Error("something is left of those that left")
	}
}
