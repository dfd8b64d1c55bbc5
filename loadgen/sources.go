package loadgen

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// mostPerSource is how many connections to one target a source address has by default, but at most
// half of the range of ports: beyond that the kernel takes a hundred times as long to find a free
// port.
const mostPerSource = 20_000

// FillSources gives a plan without source addresses those that its fleet needs: 127.0.0.2,
// 127.0.0.3 … to targets on this machine, and its own addresses to others. It leaves the choice to
// the kernel where one address has enough ports.
func FillSources(p *Plan) {
	if len(p.Sources) > 0 || len(p.Targets) == 0 {
		return
	}
	first, last := kernel{"/"}.ports()
	each := min(mostPerSource, (last-first+1)/2) * len(p.Targets)
	wanted := (p.Devices + each - 1) / max(each, 1)
	if moves(p) {
		wanted = max(wanted, 2)
	}
	switch {
	case wanted <= 1:
	case !slices.ContainsFunc(p.Targets, func(t string) bool { return !isLoopback(t) }):
		address := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		for range min(wanted, 1<<16) {
			address = address.Next()
			p.Sources = append(p.Sources, address)
		}
	default:
		if all := ownAddresses(); len(all) > 1 {
			p.Sources = all
		}
	}
}

func moves(p *plan.Plan) bool {
	return slices.ContainsFunc(p.Phases, func(ph plan.Phase) bool {
		return slices.ContainsFunc(ph.Acts, func(a plan.Act) bool { return a.Kind == plan.Move })
	})
}

// isLoopback reports whether a target is on this machine and has an IPv4 address.
func isLoopback(target string) bool {
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().Is4() && address.Unmap().IsLoopback()
}

// ownAddresses returns the addresses of this machine that others can see.
func ownAddresses() []netip.Addr {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var all []netip.Addr
	for _, a := range found {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
			all = append(all, prefix.Addr())
		}
	}
	return all
}

// way counts the addresses and ports, whose product limits the connections.
type way struct{ sources, targets, ports int }

func (w way) connections() int { return max(w.sources, 1) * w.targets * w.ports }

// wayOf looks the targets up.
func wayOf(ctx context.Context, p *plan.Plan) (way, error) {
	first, last := kernel{"/"}.ports()
	w := way{sources: len(p.Sources), ports: last - first + 1}
	for _, target := range p.Targets {
		host, _, err := net.SplitHostPort(target)
		if err != nil {
			return w, fmt.Errorf("target %q: %w", target, err)
		}
		if _, err := netip.ParseAddr(host); err == nil {
			w.targets++
			continue
		}
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return w, fmt.Errorf("target %q: %w", target, err)
		}
		w.targets += len(found)
	}
	return w, nil
}

// check returns an error if there are too few ports for so many connections.
func (w way) check(connections int) error {
	if connections <= w.connections() {
		return nil
	}
	needed := (connections + w.targets*w.ports/2 - 1) / max(w.targets*w.ports/2, 1)
	from := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	to := from
	for range min(needed, 1<<16) {
		to = to.Next()
	}
	return fmt.Errorf("%d connections are too many for %d source and %d target addresses with %d ports: at most %d fit; "+
		"give at least %d source addresses (--source %v-%v to targets on this machine), more targets, or more ports "+
		"(sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\")",
		connections, max(w.sources, 1), w.targets, w.ports, w.connections(), needed, from.Next(), to)
}
