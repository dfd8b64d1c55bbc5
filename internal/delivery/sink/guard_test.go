package sink_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// What is not part of the public internet is refused, in whatever form it is written.
func TestGuard(t *testing.T) {
	g := sink.NewGuard([]netip.Prefix{netip.MustParsePrefix("10.7.0.0/16"), netip.MustParsePrefix("fd00:7::/32"), netip.MustParsePrefix("::ffff:10.8.0.0/112")})
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
		{"192.31.196.1", true},
		{"192.52.193.1", true},
		{"192.88.99.1", true},
		{"192.168.1.1", true},
		{"192.175.48.1", true},
		{"198.18.0.1", true},
		{"198.51.100.1", true},
		{"203.0.113.1", true},
		{"224.0.0.1", true},
		{"239.255.255.250", true},
		{"240.0.0.1", true},
		{"255.255.255.255", true},
		{"100.100.100.200", true}, // of a cloud's metadata
		{"168.63.129.16", true},   // a cloud's host
		{"168.63.129.17", false},
		{"161.26.0.10", true}, // a cloud's services
		{"161.27.0.1", false},
		{"166.9.48.1", true},
		{"166.12.0.1", false},
		{"::", true},
		{"::1", true},
		{"::127.0.0.1", true},
		{"::ffff:127.0.0.1", true},
		{"::ffff:169.254.169.254", true},
		{"::ffff:0:127.0.0.1", true},
		{"::ffff:0:169.254.169.254", true},
		{"64:ff9b::a9fe:a9fe", true},
		{"64:ff9b:1::1", true},
		{"64:ff9b:0:1::1", true}, // assigned to nobody
		{"100::1", true},
		{"100:0:0:1::1", true},
		{"200::1", true},
		{"400::1", true},
		{"1fff::1", true},
		{"2001::1", true},
		{"2001:db8::1", true},
		{"2001:4:112::1", true},
		{"2002:7f00:1::", true},
		{"2620:4f:8000::1", true},
		{"2620:4f:8001::1", false},
		{"3fff::1", true},
		{"3fff:1000::1", false},
		{"4000::1", true},
		{"5f00::1", true},
		{"8000::1", true},
		{"c000::1", true},
		{"fc00::1", true},
		{"fd00:ec2::254", true}, // of clouds' metadata
		{"fe80::1", true},
		{"fe80::1%eth0", true},
		{"fec0::1", true},
		{"ff02::1", true},
	} {
		if err := g.Check(netip.MustParseAddr(c.address)); errors.Is(err, sink.ErrPrivate) != c.refused {
			t.Errorf("Check(%s) = %v, want refused: %v", c.address, err, c.refused)
		}
	}
	if err := g.Check(netip.Addr{}); !errors.Is(err, sink.ErrPrivate) {
		t.Errorf("Check of no address = %v, want ErrPrivate", err)
	}
	for _, address := range []string{"127.0.0.1:80", "[::1]:80", "localhost:80", "127.0.0.1", "", "[fe80::1%lo]:1", "0x7f.1:80"} {
		if err := g.Control("tcp", address, nil); !errors.Is(err, sink.ErrPrivate) {
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
	g := sink.NewGuard(nil)
	f.Fuzz(func(t *testing.T, address string) {
		if g.Control("tcp", address, nil) != nil {
			return
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return // a zone, or a port by name
		}
		if ip := at.Addr().Unmap(); ip.Is6() && ip.As16()[0]>>5 != 1 || ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
			t.Errorf("%q passes", address)
		}
	})
}
