package delivery

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrPrivate is wrapped by the error of a delivery to an address that is not part of the public internet, and is not allowed.
var ErrPrivate = errors.New("delivery: a private address")

// Guard keeps connections within the public internet and the networks that are allowed. Its Control is called with the address that is
// about to be connected to, after names were resolved: a name that means a public address at first and another one then is of no use.
type Guard struct {
	allowed []netip.Prefix
	special []netip.Prefix
}

// NewGuard returns a guard that allows some networks beside the public internet.
func NewGuard(allowed []netip.Prefix) *Guard {
	g := &Guard{}
	for _, p := range allowed {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		g.allowed = append(g.allowed, p.Masked())
	}
	// The special-purpose address registries, https://www.iana.org/assignments/iana-ipv4-special-registry and
	// https://www.iana.org/assignments/iana-ipv6-special-registry, and what carries an IPv4 address within one of IPv6.
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
		"fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		g.special = append(g.special, netip.MustParsePrefix(text))
	}
	return g
}

// Check says whether an address may be connected to.
func (g *Guard) Check(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	for _, p := range g.allowed {
		if p.Contains(ip) {
			return nil
		}
	}
	for _, p := range g.special {
		if p.Contains(ip) {
			return fmt.Errorf("%w: %s is in %s, which this process is not configured to deliver to", ErrPrivate, ip, p)
		}
	}
	return nil
}

// Control is for net.Dialer.
func (g *Guard) Control(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q cannot be read", ErrPrivate, address)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("%w: %q is no address", ErrPrivate, host)
	}
	return g.Check(ip)
}
