package sink

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// maxAddresses is how many servers a list may name.
const maxAddresses = 32

// Addresses parses a list of servers, HOST or HOST:PORT with commas between, and IPv6 addresses in
// brackets. It returns each with a port, by default the given one.
func Addresses(list string, port uint16) ([]string, error) {
	parts := strings.Split(list, ",")
	if len(parts) > maxAddresses {
		return nil, fmt.Errorf("%d servers, want %d at most", len(parts), maxAddresses)
	}
	for i, part := range parts {
		host, text := part, strconv.Itoa(int(port))
		if colon := strings.LastIndexByte(part, ':'); colon > strings.LastIndexByte(part, ']') {
			host, text = part[:colon], part[colon+1:]
		}
		if n, err := strconv.ParseUint(text, 10, 16); err != nil || n == 0 || text[0] == '+' {
			return nil, fmt.Errorf("%.100q has no port from 1 to 65535; want HOST:PORT", part)
		}
		if inner, ok := strings.CutPrefix(host, "["); ok {
			inner, closed := strings.CutSuffix(inner, "]")
			if ip, err := netip.ParseAddr(inner); !closed || err != nil || !ip.Is6() || ip.Zone() != "" && !isHost(ip.Zone()) {
				return nil, fmt.Errorf("%.100q has no IPv6 address in its brackets", part)
			}
			host = inner
		} else if !isHost(host) {
			return nil, fmt.Errorf("%.100q is no server; want HOST:PORT, and commas between several", part)
		}
		parts[i] = net.JoinHostPort(host, text)
	}
	return parts, nil
}

// isHost reports whether a text can be a name or an IPv4 address.
func isHost(text string) bool {
	strange := func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-._", c))
	}
	return text != "" && len(text) <= 253 && !strings.ContainsFunc(text, strange)
}

// TLS returns a configuration that trusts the certificates of servers in ca, in PEM; with an empty ca
// those that the machine trusts.
func TLS(ca string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return c, nil
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("ca has no certificate; want the text of a PEM file that begins with -----BEGIN CERTIFICATE-----")
	}
	return c, nil
}
