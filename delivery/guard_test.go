package delivery_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/holter-iot/holter/delivery"
)

// What is not part of the public internet is refused, in whatever form it is written.
func TestGuard(t *testing.T) {
	g := delivery.NewGuard([]netip.Prefix{netip.MustParsePrefix("10.7.0.0/16"), netip.MustParsePrefix("fd00:7::/32"), netip.MustParsePrefix("::ffff:10.8.0.0/112")})
	for _, c := range []struct {
		address string
		refused bool
	}{
		{"93.184.215.14", false},
		{"1.1.1.1", false},
		{"172.32.0.1", false},
		{"192.169.0.1", false},
		{"2606:4700:4700::1111", false},
		{"2a00:1450:4001:80b::200e", false},
		{"10.7.1.2", false}, // allowed
		{"::ffff:10.7.1.2", false},
		{"10.8.1.2", false},
		{"fd00:7::1", false},
		{"0.0.0.0", true},
		{"0.1.2.3", true},
		{"10.0.0.1", true},
		{"10.9.0.1", true},
		{"100.64.0.1", true},
		{"127.0.0.1", true},
		{"127.255.255.254", true},
		{"169.254.169.254", true}, // of clouds' metadata
		{"172.16.0.1", true},
		{"172.31.255.255", true},
		{"192.0.0.192", true},
		{"192.0.2.1", true},
		{"192.168.1.1", true},
		{"198.18.0.1", true},
		{"198.51.100.1", true},
		{"203.0.113.1", true},
		{"224.0.0.1", true},
		{"239.255.255.250", true},
		{"240.0.0.1", true},
		{"255.255.255.255", true},
		{"::", true},
		{"::1", true},
		{"::127.0.0.1", true},
		{"::ffff:127.0.0.1", true},
		{"::ffff:169.254.169.254", true},
		{"64:ff9b::a9fe:a9fe", true},
		{"64:ff9b:1::1", true},
		{"100::1", true},
		{"2001::1", true},
		{"2001:db8::1", true},
		{"2002:7f00:1::", true},
		{"fc00::1", true},
		{"fd00:ec2::254", true}, // of clouds' metadata
		{"fe80::1", true},
		{"fe80::1%eth0", true},
		{"fec0::1", true},
		{"ff02::1", true},
	} {
		if err := g.Check(netip.MustParseAddr(c.address)); errors.Is(err, delivery.ErrPrivate) != c.refused {
			t.Errorf("Check(%s) = %v, want refused: %v", c.address, err, c.refused)
		}
	}
	for _, address := range []string{"127.0.0.1:80", "[::1]:80", "localhost:80", "127.0.0.1", "", "[fe80::1%lo]:1", "0x7f.1:80"} {
		if err := g.Control("tcp", address, nil); !errors.Is(err, delivery.ErrPrivate) {
			t.Errorf("Control(%q) = %v, want ErrPrivate", address, err)
		}
	}
	if err := g.Control("tcp4", "1.1.1.1:443", nil); err != nil {
		t.Errorf("Control of a public address: %v", err)
	}
}

func FuzzGuard(f *testing.F) {
	f.Add("127.0.0.1:80")
	f.Add("[::ffff:7f00:1]:80")
	g := delivery.NewGuard(nil)
	f.Fuzz(func(t *testing.T, address string) {
		if g.Control("tcp", address, nil) != nil {
			return
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return // a zone, or a port by name
		}
		if ip := at.Addr().Unmap(); ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
			t.Errorf("%q passes", address)
		}
	})
}
