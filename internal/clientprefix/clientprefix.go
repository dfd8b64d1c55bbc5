// Package clientprefix says which addresses count as one client, for limits of what each may do. All of
// its functions may be called concurrently.
package clientprefix

import "net/netip"

// Of returns an IPv4 address as a network of its own, or the network of 64 bits of an IPv6 address,
// all of which one customer has to himself (RFC 6177). An IPv4 address in IPv6, ::ffff:a.b.c.d, is
// the IPv4 address. Zones are left out. Of the zero Addr it returns the zero Prefix.
func Of(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	p, _ := a.Prefix(min(a.BitLen(), 64)) // no address has fewer bits
	return p
}
