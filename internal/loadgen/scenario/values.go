package scenario

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/strictyaml"
)

// ParseShare reads a share of 0 to 1: 10% or 0.1.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent && err == nil {
		// The nearest number to the decimal fraction, where a division would give another for 7%.
		if r, ok := new(big.Rat).SetString(strings.TrimSpace(number)); ok {
			f, _ = r.Quo(r, big.NewRat(100, 1)).Float64()
		}
	}
	if err != nil || !(f >= 0 && f <= 1) {
		return 0, fmt.Errorf("%s is not a share; write 10%% or 0.1", strictyaml.Quote(text))
	}
	return f, nil
}

// ParseRate reads a number of connections a second: 20000 or 20000/s.
func ParseRate(text string) (float64, error) {
	number := strings.TrimSpace(strings.TrimSuffix(text, "/s"))
	f, err := strconv.ParseFloat(strings.ReplaceAll(number, "_", ""), 64)
	if err != nil || !(f > 0 && f <= 1e9) {
		return 0, fmt.Errorf("%s is not a number of connections a second; write 20000/s", strictyaml.Quote(text))
	}
	return f, nil
}

// ParseTarget reads an address to connect to, with or without a scheme before it: tcp://HOST:PORT
// or mqtt://HOST:PORT.
func ParseTarget(text string) (string, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if strings.Contains(text, "@") { // there may be a password in it
		return "", errors.New("holds an @; write HOST:PORT, and give a name and a password with user and token")
	}
	if !ok {
		return text, nil
	}
	if s := strings.ToLower(scheme); s != "tcp" && s != "mqtt" {
		return "", fmt.Errorf("%s has the unknown scheme %s; known are tcp and mqtt", strictyaml.Quote(text), strictyaml.Quote(scheme))
	}
	return strings.TrimSuffix(rest, "/"), nil
}

// maxSources is how many addresses one range or network may have.
const maxSources = 65536

// ParseSources reads addresses to connect from: one, a range (127.0.0.2-127.0.0.40) or a network
// (10.1.0.0/24, without the first and the last address, which name the network itself and all its
// hosts).
func ParseSources(text string) ([]netip.Addr, error) {
	switch {
	case strings.Contains(text, "/"):
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			break
		}
		return networkOf(text, prefix)
	case strings.Contains(text, "-"):
		first, last, _ := strings.Cut(text, "-")
		from, err1 := netip.ParseAddr(strings.TrimSpace(first))
		to, err2 := netip.ParseAddr(strings.TrimSpace(last))
		if err1 != nil || err2 != nil {
			break
		}
		return between(text, from, to)
	default:
		if a, err := netip.ParseAddr(text); err == nil {
			return []netip.Addr{a}, nil
		}
	}
	return nil, fmt.Errorf("%s is neither an address nor a range of them; write 127.0.0.2, 127.0.0.2-127.0.0.40 or 10.1.0.0/24", strictyaml.Quote(text))
}

func networkOf(text string, prefix netip.Prefix) ([]netip.Addr, error) {
	prefix = prefix.Masked()
	host := prefix.Addr().BitLen() - prefix.Bits()
	if host > 16 {
		return nil, tooMany(text)
	}
	var all []netip.Addr
	for a := prefix.Addr(); a.IsValid() && prefix.Contains(a); a = a.Next() {
		all = append(all, a)
	}
	if prefix.Addr().Is4() && host > 1 {
		all = all[1 : len(all)-1]
	}
	return all, nil
}

func between(text string, from, to netip.Addr) ([]netip.Addr, error) {
	if from.BitLen() != to.BitLen() || from.Zone() != to.Zone() || to.Less(from) {
		return nil, fmt.Errorf("%s is not a range: the second address must be of the same kind and not before the first", strictyaml.Quote(text))
	}
	var all []netip.Addr
	for a := from; a.IsValid() && !to.Less(a); a = a.Next() {
		if len(all) == maxSources {
			return nil, tooMany(text)
		}
		all = append(all, a)
	}
	return all, nil
}

func tooMany(text string) error {
	return fmt.Errorf("%s has more than %d addresses; write a smaller one", strictyaml.Quote(text), maxSources)
}

// someSources are two addresses that can be bound.
func someSources() []netip.Addr {
	a := netip.AddrFrom4([4]byte{127, 0, 0, 2})
	return []netip.Addr{a, a.Next()}
}

// parseDuration leaves checking the range to the plan.
func parseDuration(text string) (time.Duration, error) {
	return strictyaml.Duration(text, "30s")
}

// atLeastSome is parseDuration for fields with a default, where 0 would not mean 0.
func atLeastSome(text string) (time.Duration, error) {
	d, err := parseDuration(text)
	if err == nil && d == 0 {
		return 0, errors.New("0 is out of range; write a duration, or leave it out for the default")
	}
	return d, err
}

func parseCount(text string) (int, error) {
	n, err := strictyaml.WholeNumber(text)
	switch {
	case errors.Is(err, strconv.ErrSyntax), strings.HasPrefix(text, "+"):
		return 0, fmt.Errorf("%s is not a whole number", strictyaml.Quote(text))
	case err != nil, n <= 0:
		return 0, fmt.Errorf("%s is out of range; allowed is a number from 1 on", strictyaml.Quote(text))
	}
	return n, nil
}

func parseSeed(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a seed; write a whole number from 0 on", strictyaml.Quote(text))
	}
	return n, nil
}

func parseQoS(text string) (byte, error) {
	switch text {
	case "0":
		return 0, nil
	case "1":
		return 1, nil
	}
	return 0, fmt.Errorf("%s is not supported; allowed are 0 and 1", strictyaml.Quote(text))
}

func parseProtocol(text string) (string, error) {
	known := plan.Protocols()
	if slices.Contains(known, text) {
		return text, nil
	}
	return "", fmt.Errorf("%s is not known%s (known are %s)", strictyaml.Quote(text), strictyaml.DidYouMean(text, known), strings.Join(known, ", "))
}

func parseKind(text string) (plan.Kind, error) {
	if k, ok := plan.ParseKind(text); ok {
		return k, nil
	}
	words := plan.KindNames()
	return 0, fmt.Errorf("%s is not something that a device does%s (known are %s)",
		strictyaml.Quote(text), strictyaml.DidYouMean(text, words), strings.Join(words, ", "))
}

func parseText(text string) (string, error) { return text, nil }
