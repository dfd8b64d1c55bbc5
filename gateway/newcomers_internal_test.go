package gateway

import (
	"net/netip"
	"testing"
)

// There is room for three, two of each address when there is none.
func TestNewcomers(t *testing.T) {
	a, b, none := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.Addr{}
	c := make([]*connection, 10)
	for i := range c {
		c[i] = new(connection)
	}
	var n newcomers
	n.init(3, 2)
	expect := func(what string, got, want *connection) {
		t.Helper()
		for i := range c {
			if got == c[i] && got != want {
				t.Errorf("%s: connection %d goes", what, i)
			}
		}
		if got == nil && want != nil {
			t.Errorf("%s: nobody goes", what)
		}
	}
	expect("room", n.enter(c[0], b), nil)
	expect("room", n.enter(c[1], a), nil)
	expect("room for an address, as there is some for all", n.enter(c[2], a), nil)
	expect("the address has more than its share", n.enter(c[3], a), c[1])
	expect("the oldest", n.enter(c[4], none), c[0])
	expect("those without an address have no share", n.enter(c[5], none), c[2])
	n.back(c[6], none)
	if n.count() != 4 {
		t.Errorf("%d, want 4: nobody goes for one that comes back", n.count())
	}
	n.back(c[3], b) // a PROXY header has named it; now it is the youngest
	n.leave(c[4])
	n.leave(c[4])
	expect("the oldest", n.oldest(), c[5])
	expect("the next", n.oldest(), c[6])
	expect("the youngest", n.oldest(), c[3])
	expect("none", n.oldest(), nil)
	if n.count() != 0 || len(n.addresses) != 0 || len(n.known) != 0 {
		t.Errorf("%d newcomers, %d addresses, %d known, want nothing", n.count(), len(n.addresses), len(n.known))
	}
}
