package sockets

import (
	"net/netip"
	"testing"
	"time"
)

// Of the address that has the most strangers, if these are more than its share, the oldest goes once it has been
// there for long. Who may ask, has been answered, or has no address is no stranger.
func TestSurplus(t *testing.T) {
	a, b := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	s := NewSet()
	s.began = time.Now().Add(-time.Minute)
	conns := make(map[string]*Conn)
	add := func(name string, from netip.Prefix, age time.Duration) {
		c := &Conn{set: s, fd: -1, from: from}
		c.idleSince.Store(int64(time.Minute - age))
		conns[name], s.placed[c] = c, struct{}{}
	}
	expect := func(when, want string) {
		t.Helper()
		if got := s.surplus(2); got != conns[want] {
			t.Errorf("%s: another one goes than %q", when, want)
		}
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		add(name, netip.Prefix{}, time.Minute)
	}
	for _, name := range []string{"b1", "b2"} {
		add(name, b, 50*time.Second)
	}
	add("a1", a, 0)
	add("a2", a, 0)
	expect("nobody has more than a share", "")
	add("a3", a, 0)
	expect("they have just come", "")
	add("a4", a, 40*time.Second)
	add("b3", b, time.Minute)
	expect("the most are of the other address", "a4")
	conns["a4"].Keep()
	conns["a1"].served.Store(true)
	expect("they are no strangers any more", "b3")
	s.remove(conns["b3"])
	expect("one has gone", "")
}
