package fleet

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// devicesPerSource is how many devices share a source address by default. Ports
// of one address become slow to find beyond half of the kernel's default range
// of 28,000.
const devicesPerSource = 8000

// Config says how many devices a Fleet plays and how. Addr and Devices must be
// set; every other zero field has a default.
type Config struct {
	// Addr is the gateway's IPv4 address and port, such as "127.0.0.1:7000".
	Addr string
	// Devices is the number of devices, at least 1. Each needs one descriptor.
	Devices int
	// Prefix is the fmt format of a device's id; it is given the index, which
	// counts from 0. Default "dev-%06d".
	Prefix string
	// Token is sent in HELLO after the id if it is not empty.
	Token string
	// TTL is what a device announces in HELLO. Default 60 s.
	TTL time.Duration
	// Interval is the time between two heartbeats of a device, less than TTL.
	// Default TTL/3.
	Interval time.Duration
	// SourceIPs are the addresses that devices bind, in turn. Default: for a
	// gateway on 127.0.0.0/8, 127.0.0.2 and the following, one for each 8,000
	// devices; for any other gateway, whatever the kernel chooses.
	SourceIPs []netip.Addr
	// Rate is the greatest number of new connections a second. Default 10,000.
	Rate int
	// RetryMin and RetryMax make a device dial again by itself when the peer
	// ended its connection, or its dial failed, until it is ordered to stop:
	// after RetryMin at first, then after twice as long each time, up to
	// RetryMax; chance shortens each wait by up to a half. Default: none does.
	RetryMin, RetryMax time.Duration
	// Seed makes the chance above the same in each run.
	Seed uint64
	// Journal keeps each sign of life in [Device].Signs; it costs 24 bytes each.
	Journal bool
}

// withDefaults returns a copy of c with its zero fields filled, and the parsed
// gateway address, or all that is wrong with it.
func (c Config) withDefaults() (Config, netip.AddrPort, error) {
	if c.Prefix == "" {
		c.Prefix = "dev-%06d"
	}
	if c.TTL == 0 {
		c.TTL = time.Minute
	}
	if c.Interval == 0 {
		c.Interval = c.TTL / 3
	}
	if c.Rate == 0 {
		c.Rate = 10_000
	}
	target, errs := c.problems()
	if errs == nil && len(c.SourceIPs) == 0 && target.Addr().IsLoopback() {
		c.SourceIPs = loopbackSources(1 + (c.Devices-1)/devicesPerSource)
	}
	return c, target, errs
}

// problems parses Addr and joins an error for each field that cannot be used.
func (c Config) problems() (netip.AddrPort, error) {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("fleet: "+format, args...))
		}
	}
	target, err := netip.ParseAddrPort(c.Addr)
	bad(err != nil, "Addr: %w", err)
	bad(err == nil && (!target.Addr().Is4() || target.Addr().IsUnspecified() || target.Port() == 0),
		"Addr %q: want a specified IPv4 address and a port", c.Addr)
	bad(c.Devices < 1, "Devices %d: want at least 1", c.Devices)
	id := fmt.Sprintf(c.Prefix, 1)
	bad(id == fmt.Sprintf(c.Prefix, 2) || strings.Contains(id, "%!"), "Prefix %q: does not format an index", c.Prefix)
	bad(strings.ContainsAny(id+c.Token, " \t\r\n"), "Prefix %q or Token: has white space", c.Prefix)
	bad(c.TTL < 0, "TTL %v: negative", c.TTL)
	bad(c.Interval <= 0 || c.Interval >= c.TTL, "Interval %v: want more than 0 and less than TTL %v", c.Interval, c.TTL)
	bad(c.Rate < 0, "Rate %d: negative", c.Rate)
	bad(c.RetryMin < 0 || c.RetryMax < c.RetryMin || (c.RetryMax > 0 && c.RetryMin == 0),
		"RetryMin %v, RetryMax %v: want none, or both and the first not greater", c.RetryMin, c.RetryMax)
	for _, ip := range c.SourceIPs {
		bad(!ip.Is4(), "SourceIPs: %v is not IPv4", ip)
	}
	return target, errors.Join(errs...)
}

// loopbackSources returns n addresses from 127.0.0.2 upwards.
func loopbackSources(n int) []netip.Addr {
	ips := make([]netip.Addr, n)
	ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for i := range ips {
		ip = ip.Next()
		ips[i] = ip
	}
	return ips
}
