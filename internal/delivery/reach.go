package delivery

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"
)

// maxLookup bounds how long the hosts of a target are looked up when an endpoint is set.
const maxLookup = 2 * time.Second

// checkReach returns an error for a target on the network that no delivery could reach, since the guard
// refuses all addresses of a host. A host that is not found now may be found later: that is only logged.
func (e *Engine) checkReach(ctx context.Context, name, target string) error {
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	for _, host := range hostsOf(target) {
		addresses := []netip.Addr{}
		if ip, err := netip.ParseAddr(host); err == nil {
			addresses = append(addresses, ip)
		} else if addresses, err = e.lookup(ctx, "ip", host); err != nil {
			e.config.Logger.WarnContext(ctx, "cannot look up a host of an endpoint; each delivery tries to", "endpoint", name, "host", host, "error", err)
			continue
		}
		if err := e.refuses(addresses); err != nil {
			return bad("target: %s: %w", host, err)
		}
	}
	return nil
}

// refuses returns the error of the guard if it refuses all addresses.
func (e *Engine) refuses(addresses []netip.Addr) (err error) {
	for _, ip := range addresses {
		if err = e.guard.Check(ip); err == nil {
			return nil
		}
	}
	return err
}

// lookupFunc is [net.Resolver.LookupNetIP].
type lookupFunc func(ctx context.Context, network, host string) ([]netip.Addr, error)

// hostsOf returns the hosts of a target that is a URL, perhaps of several servers; none for any other.
func hostsOf(target string) []string {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || strings.ContainsFunc(scheme, func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') }) {
		return nil // a file, a program or a playbook
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	var hosts []string
	for one := range strings.SplitSeq(rest, ",") {
		one = strings.TrimSpace(one)
		if host, _, err := net.SplitHostPort(one); err == nil {
			one = host
		}
		if one = strings.Trim(one, "[]"); one != "" {
			hosts = append(hosts, one)
		}
	}
	return hosts
}
