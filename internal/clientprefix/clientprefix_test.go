package clientprefix_test

import (
	"net/netip"
	"testing"

	"github.com/holter-iot/holter/internal/clientprefix"
)

func TestOf(t *testing.T) {
	for _, tt := range []struct{ address, want string }{
		{"192.0.2.7", "192.0.2.7/32"},
		{"::ffff:192.0.2.7", "192.0.2.7/32"},
		{"::ffff:192.0.2.7%eth0", "192.0.2.7/32"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{"2001:db8:1:2::", "2001:db8:1:2::/64"},
		{"fe80::1%eth0", "fe80::/64"},
		{"::1", "::/64"},
	} {
		if got := clientprefix.Of(netip.MustParseAddr(tt.address)); got != netip.MustParsePrefix(tt.want) {
			t.Errorf("Of(%s) = %v, want %s", tt.address, got, tt.want)
		}
	}
	if got := clientprefix.Of(netip.Addr{}); got != (netip.Prefix{}) {
		t.Errorf("Of(no address) = %v, want the zero Prefix", got)
	}
	if allocs := testing.AllocsPerRun(100, func() { clientprefix.Of(netip.IPv6Loopback()) }); allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}
