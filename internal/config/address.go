package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// parseAddress checks HOST:PORT and returns it as it is. The host may be
// empty, which is every address of this machine.
func parseAddress(text string) (string, error) {
	if text == "" {
		return "", errors.New("the address is empty; write HOST:PORT, as in 127.0.0.1:7700")
	}
	if strings.Contains(text, "://") {
		return "", fmt.Errorf("%s has a protocol, and takes none; write HOST:PORT", strictyaml.Quote(text))
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", addressError(text)
	}
	if n, err := strconv.ParseUint(port, 10, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return "", fmt.Errorf("%s has the port %s, which is not a number; allowed are 0 to 65535", strictyaml.Quote(text), strictyaml.Quote(port))
	} else if err != nil || n > 65535 {
		return "", fmt.Errorf("%s has a port out of range; allowed are 0 to 65535", strictyaml.Quote(text))
	}
	if !validHost(host, strings.HasPrefix(text, "[")) {
		return "", fmt.Errorf("%s has a host that is neither an IP address nor a name", strictyaml.Quote(text))
	}
	return text, nil
}

// parseNode checks the name of a server.
func parseNode(text string) (string, error) {
	if text == "" || len(text) > 64 || strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	}) {
		return "", fmt.Errorf("%s is not a name; write 1 to 64 letters, digits, dots, - and _", strictyaml.Quote(strictyaml.Shorten(text)))
	}
	return text, nil
}

// parseAdvertise checks the URL of an API.
func parseAdvertise(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%s is not the address of an API; write http://HOST:PORT or https://HOST:PORT", strictyaml.Quote(text))
	}
	return u.Scheme + "://" + u.Host, nil
}

// addressError says what is wrong with a text that has no HOST:PORT shape.
func addressError(text string) error {
	bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if _, err := netip.ParseAddr(bare); err == nil && strings.Contains(bare, ":") {
		return fmt.Errorf("%s: write an IPv6 address in brackets, with its port, as in [%s]:7700", strictyaml.Quote(text), bare)
	}
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return fmt.Errorf("%s is a port without a host; write 127.0.0.1:%s", strictyaml.Quote(text), text)
	}
	if !strings.Contains(text, ":") {
		return fmt.Errorf("%s has no port; write HOST:PORT, as in 127.0.0.1:7700", strictyaml.Quote(text))
	}
	return fmt.Errorf("%s is not an address; write HOST:PORT, as in 127.0.0.1:7700 or [::1]:7700", strictyaml.Quote(text))
}

func validHost(host string, bracketed bool) bool {
	if bracketed {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Is6()
	}
	if len(host) > 253 {
		return false
	}
	for _, c := range []byte(host) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	// A name of digits and dots alone is an IP address with a mistake.
	if strings.Trim(host, "0123456789.") == "" && host != "" {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	return true
}

// Loopback reports whether only this machine reaches a valid address. A name
// other than localhost is taken to be reachable from elsewhere.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
