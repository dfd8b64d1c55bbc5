package sink

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// PrivateEnv is the environment variable that names the networks which may be delivered to although they
// are not part of the public internet, separated by commas.
const PrivateEnv = "HOLTER_DELIVERY_ALLOW_PRIVATE"

// CommandsEnv is the environment variable that says, as true or false, whether programs may be run.
const CommandsEnv = "HOLTER_DELIVERY_ALLOW_COMMANDS"

// ErrPrivate is wrapped by the error of a delivery to an address that is neither part of the public
// internet nor allowed.
var ErrPrivate = errors.New("delivery: a private address")

// Guard keeps connections within the public internet and the allowed networks. It checks the address
// of each connection after names were resolved, so that a name which resolves to a public address
// when it is configured, and to a private one later, gains nothing.
type Guard struct {
	allowed []netip.Prefix
	special []netip.Prefix
}

// NewGuard returns a guard that allows the given networks in addition to the public internet.
func NewGuard(allowed []netip.Prefix) *Guard {
	g := &Guard{}
	for _, p := range allowed {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		g.allowed = append(g.allowed, p.Masked())
	}
	for _, text := range special() {
		g.special = append(g.special, netip.MustParsePrefix(text))
	}
	return g
}

// special returns the networks that are not part of the public internet. Where one contains another,
// the more specific one comes first.
func special() []string {
	return []string{
		// All of https://www.iana.org/assignments/iana-ipv4-special-registry, including
		// what is routed but is no place to deliver to (relays, AS112), and multicast.
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		// Public addresses at which a cloud serves only its own machines: the host of a virtual machine
		// in Azure, and the services of IBM Cloud. Those of other clouds are in the networks above and
		// below.
		"168.63.129.16/32", "161.26.0.0/16", "166.8.0.0/14",
		// All of https://www.iana.org/assignments/iana-ipv6-special-registry, and IPv6 addresses that
		// embed an IPv4 address.
		"::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32",
		"2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
		// The rest of what is outside 2000::/3, from which all public IPv6 addresses are allocated:
		// https://www.iana.org/assignments/ipv6-address-space.
		"::/3", "4000::/2", "8000::/1",
	}
}

// Check returns an error that wraps [ErrPrivate] for an address that must not be connected to.
func (g *Guard) Check(ip netip.Addr) error {
	if !ip.IsValid() {
		return fmt.Errorf("%w: there is no address", ErrPrivate)
	}
	ip = ip.Unmap().WithZone("")
	for _, p := range g.allowed {
		if p.Contains(ip) {
			return nil
		}
	}
	for _, p := range g.special {
		if p.Contains(ip) {
			return fmt.Errorf("%w: %s is in %s; to deliver there, name it or a network that contains it in %s where the server is started", ErrPrivate, ip, p, PrivateEnv)
		}
	}
	return nil
}

// Control is the Control function of a [net.Dialer].
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
