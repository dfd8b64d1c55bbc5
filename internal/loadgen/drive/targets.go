package drive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// places are where devices connect to, and from.
type places struct {
	devices int        // of the fleet
	targets [][]target // the addresses of each target
	roam    bool       // from target to target
}

type target struct {
	address netip.AddrPort
	socket  unix.Sockaddr
	sources []netip.Addr // of the same family
}

// resolve looks the targets up. A name with several addresses is spread over.
func resolve(ctx context.Context, devices int, texts []string, sources []netip.Addr) (places, error) {
	p := places{devices: devices}
	var errs []error
	for _, text := range texts {
		list, err := lookUp(ctx, text)
		if err != nil {
			errs = append(errs, fmt.Errorf("target %q: %w", text, err))
			continue
		}
		var addresses []target
		for _, address := range list {
			t := target{address: address, socket: sockaddr(address)}
			for _, s := range sources {
				if s = s.Unmap(); s.Is4() == address.Addr().Is4() {
					t.sources = append(t.sources, s)
				}
			}
			if len(sources) == 0 || len(t.sources) > 0 {
				addresses = append(addresses, t)
			}
		}
		if len(addresses) == 0 {
			errs = append(errs, fmt.Errorf("target %q: none of its addresses is of the same family, IPv4 or IPv6, as a source address", text))
		}
		p.targets = append(p.targets, addresses)
	}
	return p, errors.Join(errs...)
}

func lookUp(ctx context.Context, text string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(text)
	if err != nil {
		return nil, fmt.Errorf("write host:port, or [address]:port for IPv6: %w", err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("%q is no port; it goes from 1 to 65535", service)
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(address.Unmap(), uint16(port))}, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	list := make([]netip.AddrPort, len(found))
	for i, address := range found {
		list[i] = netip.AddrPortFrom(address.Unmap(), uint16(port))
	}
	return list, nil
}

// place is where device n connects to, and from; the latter is not valid if the kernel is to
// choose. Each target has a block of the fleet, so that a process has to do with few of them: with
// 8 targets and 8 processes on a machine of two cores, half as many again were let in each second
// as with devices dealt out in turn. With each move, a device goes on to the next source address or, if
// it roams, to the next target from the same one.
func (p places) place(n int, moves uint8) (target, netip.Addr) {
	addresses := p.targets[p.block(n, moves)]
	t := addresses[n%len(addresses)]
	if len(t.sources) == 0 {
		return t, netip.Addr{}
	}
	n /= len(addresses)
	if !p.roam {
		n += int(moves)
	}
	return t, t.sources[n%len(t.sources)]
}

// block is the index of the target that device n connects to after some moves.
func (p places) block(n int, moves uint8) int {
	at := n * len(p.targets) / p.devices
	if p.roam {
		at = (at + int(moves)) % len(p.targets)
	}
	return at
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	s := &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
	if zone := a.Addr().Zone(); zone != "" {
		if i, err := net.InterfaceByName(zone); err == nil {
			s.ZoneId = uint32(i.Index)
		} else if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			s.ZoneId = uint32(n)
		}
	}
	return s
}
