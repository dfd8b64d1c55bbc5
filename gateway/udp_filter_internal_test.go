package gateway

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// placeOfAddr is the place of a socket's address as a reader sees it.
func placeOfAddr(t *testing.T, a net.Addr) place {
	t.Helper()
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	e := endpoint{}
	e.name.Family, e.name.Addr = unix.AF_INET6, at.Addr().As16()
	e.name.Port = at.Port()>>8 | at.Port()<<8
	return placeOf(&e)
}

// After a device made room for another, what is dropped elsewhere may be its heartbeats.
func TestExposedAfterEviction(t *testing.T) {
	now := time.Now()
	u := &udp{gateway: &Gateway{began: now}}
	if u.exposed(now.Add(time.Hour)) {
		t.Error("exposed without a reason")
	}
	u.evicted.Store(int64(time.Hour))
	for after, want := range map[time.Duration]bool{time.Second: true, partedFor - 1: true, partedFor: false} {
		if got := u.exposed(now.Add(time.Hour + after)); got != want {
			t.Errorf("exposed %v after an eviction = %v, want %v", after, got, want)
		}
	}
}

// drain reads what is in a socket, and says whose it is.
func drain(t *testing.T, l *reader) (texts []string) {
	t.Helper()
	b := newBatch()
	for {
		var failed error
		if err := l.raw.Control(func(fd uintptr) { failed = b.receive(fd) }); err != nil {
			t.Fatal(err)
		}
		if errors.Is(failed, unix.EAGAIN) {
			return texts
		}
		for i := range b.read {
			texts = append(texts, fmt.Sprintf("%s %d", b.datagram(i), placeOf(&b.from[i])))
		}
	}
}

// newLanes returns the lanes of a port.
func newLanes(t *testing.T, address string) *lanes {
	t.Helper()
	l := &lanes{}
	open := func(c net.PacketConn, err error) *reader {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		r := &reader{conn: c.(*net.UDPConn)}
		if err := r.prepare(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	l.main = open((&net.ListenConfig{}).ListenPacket(t.Context(), "udp", address))
	second, err := newLane(t.Context(), l.main.raw, l.main.conn.LocalAddr().String())
	l.aside = open(second, err)
	return l
}

// TestLanes parts the datagrams of many sockets as the hashes of their addresses say, in any kind
// of network.
func TestLanes(t *testing.T) {
	tests := []struct{ name, listen, from string }{
		{"IPv4", "127.0.0.1:0", "127.0.0.1"},
		{"IPv6", "[::1]:0", "::1"},
		{"IPv4 at both", ":0", "127.0.0.1"},
		{"IPv6 at both", ":0", "::1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLanes(t, tt.listen)
			to := l.main.conn.LocalAddr().(*net.UDPAddr)
			to.IP = net.ParseIP(tt.from)
			var known []place
			var senders []net.Conn
			for i := range 64 {
				c, err := (&net.Dialer{}).DialContext(t.Context(), "udp", to.String())
				if err != nil {
					t.Skipf("there is no %s: %v", tt.name, err)
				}
				defer c.Close()
				senders = append(senders, c)
				if i%2 == 0 {
					known = append(known, placeOfAddr(t, c.LocalAddr()))
				}
			}
			for range 4000 {
				known = append(known, place(rand.Uint64()>>16))
			}
			say := func() {
				t.Helper()
				for _, c := range senders {
					if _, err := fmt.Fprint(c, placeOfAddr(t, c.LocalAddr())); err != nil {
						t.Fatal(err)
					}
				}
			}
			say()
			if n := len(drain(t, l.main)); n != len(senders) {
				t.Errorf("%d datagrams are in the main lane, want all before they are parted", n)
			}
			for range 3 {
				if err := l.part(l.built, known, true); err != nil {
					t.Fatal(err)
				}
				say()
				checkLanes(t, l, known, senders)
			}
			if err := l.join(); err != nil {
				t.Fatal(err)
			}
			say()
			if n := len(drain(t, l.main)); n != len(senders) {
				t.Errorf("%d datagrams are in the main lane, want all", n)
			}
		})
	}
}

// checkLanes wants each datagram in the lane that the hash of its place says.
func checkLanes(t *testing.T, l *lanes, known []place, senders []net.Conn) {
	t.Helper()
	bits := make(map[uint32]bool)
	for _, at := range known {
		bits[l.salt.hash(at, maxMap)] = true
	}
	want := make(map[string]bool)
	for _, c := range senders {
		at := placeOfAddr(t, c.LocalAddr())
		want[fmt.Sprintf("%d %d", at, at)] = bits[l.salt.hash(at, maxMap)]
	}
	for lane, r := range map[bool]*reader{true: l.main, false: l.aside} {
		for _, text := range drain(t, r) {
			if main, ok := want[text]; !ok || main != lane {
				t.Errorf("%s is in the main lane: %v, want %v", text, lane, main)
			}
			delete(want, text)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d datagrams did not come", len(want))
	}
}

// TestFilterFits wants filters to have no more instructions than the kernel takes, whatever is in
// them.
func TestFilterFits(t *testing.T) {
	var known []place
	for n := 0; n <= 100_000; n = 2*n + 1 {
		for len(known) < n {
			known = append(known, place(rand.Uint64()>>16))
		}
		if got := len(salt{1, 3, 5}.filter(known, maxMap)); got > 4096 {
			t.Errorf("a filter of %d places has %d instructions", n, got)
		}
	}
}

// A port with lanes is refused to others, as one without is.
func TestLanesKeepPort(t *testing.T) {
	l := newLanes(t, "127.0.0.1:0")
	c, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", l.main.conn.LocalAddr().String())
	if err == nil {
		_ = c.Close()
		t.Error("somebody else has got the port, too")
	}
}
