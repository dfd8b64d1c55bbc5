package newcomers

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// There is room for three, two of each address when there is none, and for all for a while.
func TestNewcomers(t *testing.T) {
	a, b, none := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.Addr{}
	c := make([]*int, 12)
	for i := range c {
		c[i] = new(int)
	}
	const within = 2 * time.Second
	n := New[*int](3, 2)
	begin := time.Now()
	expect := func(what string, got []*int, want ...*int) {
		t.Helper()
		if !slices.Equal(got, want) {
			var goes []int
			for _, one := range got {
				goes = append(goes, slices.Index(c, one))
			}
			t.Errorf("%s: these go: %v", what, goes)
		}
	}
	enter := func(i int, address netip.Addr, after time.Duration) []*int {
		return n.Enter(c[i], address, begin.Add(after), within)
	}
	expect("room", enter(0, b, 0))
	expect("room", enter(1, a, 0))
	expect("room for an address, as there is some for all", enter(2, a, 0))
	expect("none has been silent for long", enter(3, a, within-1))
	expect("the address has more than its share, and then all are too many", enter(4, a, within), c[1], c[2])
	expect("the oldest", enter(5, none, within), c[0])
	expect("those without an address have no share, and the others are young", enter(6, none, within))
	n.Back(c[7], none, begin.Add(within))
	if n.Len() != 5 {
		t.Errorf("%d, want 5: nobody goes for one that comes back", n.Len())
	}
	n.Back(c[3], b, begin.Add(within)) // a PROXY header has named it; now it is the youngest
	n.Leave(c[5])
	n.Leave(c[5])
	expect("no more than two at a time", enter(8, none, 2*within), c[4], c[6])
	for _, want := range []*int{c[7], c[3], c[8], nil} {
		if got := n.Oldest(b); got != want {
			t.Errorf("the oldest is %d, want %d", slices.Index(c, got), slices.Index(c, want))
		}
	}
	if n.Len() != 0 || len(n.addresses) != 0 || len(n.known) != 0 {
		t.Errorf("%d newcomers, %d addresses, %d known, want nothing", n.Len(), len(n.addresses), len(n.known))
	}
}

// Of the address that has the most, the oldest goes, once it has been there for long; nobody's goes
// who has no more than a share.
func TestSurplus(t *testing.T) {
	a, b, none := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.Addr{}
	n, begin := New[string](4, 2), time.Now()
	expect := func(after time.Duration, want string) {
		t.Helper()
		if got, ok := n.Surplus(begin.Add(after), time.Second); ok != (want != "") || ok && got != want {
			t.Errorf("Surplus after %v = %q, %v, want %q", after, got, ok, want)
		}
	}
	for _, c := range []string{"n1", "n2", "n3"} {
		n.Back(c, none, begin)
	}
	n.Back("b1", b, begin)
	n.Back("b2", b, begin)
	n.Back("a1", a, begin.Add(time.Second))
	n.Back("a2", a, begin.Add(time.Second))
	expect(time.Hour, "")
	n.Back("a3", a, begin.Add(time.Second))
	expect(2*time.Second-1, "")
	expect(2*time.Second, "a1")
	n.Renew("a1", begin.Add(2*time.Second))
	expect(2*time.Second, "a2")
	n.Leave("a2")
	n.Renew("a2", begin) // it has left
	expect(time.Hour, "")
	for _, c := range []string{"b3", "b4", "a4"} {
		n.Back(c, map[bool]netip.Addr{true: a, false: b}[c == "a4"], begin)
	}
	expect(time.Hour, "b1")
}

// There are never more than the limit, nor of an address than its share. The oldest goes once it has had
// its time, and before that the one that comes.
func TestHold(t *testing.T) {
	a, b, begin := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), time.Now()
	n := New[string](3, 2)
	for _, step := range []struct {
		at   int // in seconds
		c    string
		from netip.Addr
		goes string
		ok   bool
	}{
		{0, "b1", b, "", true},
		{1, "a1", a, "", true},
		{1, "a2", a, "", true},
		{2, "a1", a, "", true}, // it is there
		{2, "a3", a, "", false},
		{3, "a3", a, "a1", true},
		{9, "a1", a, "", false}, // it has to go
		{1, "b2", b, "", false},
		{9, "b2", b, "b1", true},
	} {
		goes, ok := n.Hold(step.c, step.from, begin.Add(time.Duration(step.at)*time.Second), 2*time.Second)
		if ok != step.ok || len(goes) > 1 || len(goes) == 1 && goes[0] != step.goes || len(goes) == 0 && step.goes != "" {
			t.Errorf("Hold(%s) after %d s = %q, %v, want %q, %v", step.c, step.at, goes, ok, step.goes, step.ok)
		}
	}
	if n.Len() != 3 {
		t.Errorf("%d, want 3", n.Len())
	}
	for c := range maps.Clone(n.known) {
		n.Leave(c)
	}
	if n.Len() != 0 || len(n.known) != 0 || len(n.addresses) != 0 {
		t.Error("something is left of those that left")
	}
}
