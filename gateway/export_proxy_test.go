package gateway

import "net/netip"

// MaxProxyHeader is the longest PROXY header.
const MaxProxyHeader = maxProxyHeader

// ParseProxy takes a PROXY header off input.
func ParseProxy(input []byte) (n int, address netip.Addr, name string, err error) {
	n, from, err := parseProxy(input)
	return n, from.address, from.name, err
}
