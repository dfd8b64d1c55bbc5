package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec/dtu"
	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/strictyaml"
)

// The protocols of devices.
const (
	ProtocolMQTT      = "mqtt"
	ProtocolJT808     = "jt808"
	ProtocolGT06      = "gt06"
	ProtocolTeltonika = "teltonika"
	ProtocolFrame     = "frame"
	ProtocolDTU       = "dtu"
	ProtocolLine      = "line" // the default of a device port
)

// Protocols returns the names of all protocols, in the order in which a port that speaks several of them is to ask whether a connection is
// theirs: what is unmistakable comes first, what is easily satisfied last.
func Protocols() []string {
	return []string{ProtocolMQTT, ProtocolJT808, ProtocolGT06, ProtocolTeltonika, ProtocolFrame, ProtocolDTU, ProtocolLine}
}

// inDatagrams are the protocols that also come in datagrams.
func inDatagrams() []string { return []string{ProtocolTeltonika, ProtocolFrame, ProtocolLine} }

// What else stands before an address.
const (
	anyProtocol = "any" // all except ProtocolDTU, which needs an expression
	overTLS     = "tls"
	overUDP     = "udp"
)

// Listener is one device port.
type Listener struct {
	Address    string      // HOST:PORT, an IPv6 host in brackets; port 0 is any free one
	Protocols  []string    // one at least, in the order of Protocols
	Packets    bool        // UDP instead of TCP
	TLS        *cert.Files // nil: none; those of the API if the file names none
	Identity   gateway.Identity
	Lenient    bool           // GT06 frames with a wrong or missing checksum count
	Messages   int            // most of a connection per second; 0: the default, -1: no limit
	Bytes      int            // the same
	MaxDevices int            // most devices that become known there; 0: no limit but that for all
	Proxies    []netip.Prefix // from where connections begin with a PROXY header; never with Packets
	DTU        *dtu.Options   // not nil if ProtocolDTU is among Protocols

	at spot
}

// String returns [tls+|udp+]PROTOCOL[+PROTOCOL…]://HOST:PORT.
func (l Listener) String() string {
	words := l.Protocols
	switch {
	case l.TLS != nil:
		words = append([]string{overTLS}, words...)
	case l.Packets:
		words = append([]string{overUDP}, words...)
	}
	return strings.Join(words, "+") + "://" + l.Address
}

// speaksMQTT reports whether MQTT clients may connect to the port.
func (l Listener) speaksMQTT() bool { return slices.Contains(l.Protocols, ProtocolMQTT) }

// Certified reports whether every device at the port proves by a certificate who it is.
func (l Listener) Certified() bool {
	return l.TLS != nil && l.TLS.Clients != "" && !l.TLS.Optional
}

// reach says that, and how, other machines reach the port; "" if they do not. What a proxy passes on comes from others, also if the proxy is
// on this machine.
func (l Listener) reach() string {
	switch {
	case !Loopback(l.Address):
		return "other machines reach " + l.Address
	case len(l.Proxies) > 0 && !l.Packets:
		return "other machines reach " + l.Address + " through its proxies"
	}
	return ""
}

// Mistake returns the error for a mistake in a device port, with the place where it was written.
func (l Listener) Mistake(message string) error { return l.at.Mistake(message) }

// off instead of an address says that nothing is to listen.
const off = "off"

// parseListener reads [PROTOCOL[+PROTOCOL…]://]HOST:PORT, or off.
func parseListener(text string) (Listener, error) {
	if text == off {
		return Listener{Address: off}, nil
	}
	l, err := parseAnyListener(text)
	if err == nil && slices.Contains(l.Protocols, ProtocolDTU) {
		err = fmt.Errorf("%s: dtu needs an expression for the registration; write the port into the file, as "+
			"{address: %q, dtu: {registration: '\\d{15}'}}", strictyaml.Quote(text), text)
	}
	return l, err
}

// parseAnyListener is parseListener without the check that dtu has an expression.
func parseAnyListener(text string) (Listener, error) {
	words, address, found := strings.Cut(text, "://")
	if !found {
		words, address = ProtocolLine, text
	}
	l, err := parseProtocols(strings.Split(words, "+"))
	if err != nil {
		return Listener{}, fmt.Errorf("%s %w", strictyaml.Quote(text), err)
	}
	l.Address, err = parseAddress(address)
	return l, err
}

// parseProtocols reads the words before an address. Its error continues a sentence.
func parseProtocols(words []string) (l Listener, err error) {
	for _, word := range words {
		switch {
		case word == overTLS:
			l.TLS = &cert.Files{}
		case word == overUDP:
			l.Packets = true
		case word == anyProtocol:
			l.Protocols = append(l.Protocols, slices.DeleteFunc(Protocols(), func(p string) bool { return p == ProtocolDTU })...)
		case slices.Contains(Protocols(), word):
			l.Protocols = append(l.Protocols, word)
		default:
			known := append([]string{anyProtocol, overTLS, overUDP}, Protocols()...)
			return l, fmt.Errorf("has the unknown protocol %s%s (known are: %s; %s is all except %s; %s and %s come first, as in %s+%s)",
				strictyaml.Quote(word), strictyaml.DidYouMean(word, known), strings.Join(Protocols(), ", "),
				anyProtocol, ProtocolDTU, overTLS, overUDP, overTLS, ProtocolLine)
		}
	}
	if l.Packets && slices.Contains(words, anyProtocol) {
		l.Protocols = slices.DeleteFunc(l.Protocols, func(p string) bool { return !slices.Contains(inDatagrams(), p) })
	}
	return l, l.settle()
}

// settle sorts the protocols, and rejects combinations that are not supported.
func (l *Listener) settle() error {
	order := func(p string) int { return slices.Index(Protocols(), p) }
	slices.SortFunc(l.Protocols, func(a, b string) int { return order(a) - order(b) })
	for i, p := range l.Protocols {
		if i > 0 && p == l.Protocols[i-1] {
			return fmt.Errorf("names %s twice", p)
		}
		if l.Packets && !slices.Contains(inDatagrams(), p) {
			return fmt.Errorf("has %s over UDP, which is not supported; allowed over UDP: %s", p, strings.Join(inDatagrams(), ", "))
		}
	}
	switch {
	case l.Packets && l.TLS != nil:
		return errors.New("has TLS over UDP, which is not supported; remove udp or tls")
	case len(l.Protocols) == 0:
		return fmt.Errorf("names no protocol; write one behind it, as in %s+%s", overTLS, ProtocolLine)
	}
	return nil
}

func parseProtocol(text string) (string, error) {
	if slices.Contains(Protocols(), text) || text == anyProtocol {
		return text, nil
	}
	known := append([]string{anyProtocol}, Protocols()...)
	return "", fmt.Errorf("%s is not a protocol%s (known are: %s; %s is all except %s)",
		strictyaml.Quote(text), strictyaml.DidYouMean(text, known), strings.Join(Protocols(), ", "), anyProtocol, ProtocolDTU)
}

// parseClientNames reports whether devices may come in without a certificate.
func parseClientNames(text string) (optional bool, err error) {
	word, err := oneOf(text, "one of: required (every device shows a certificate), optional", "required", "optional")
	return word == "optional", err
}

// parseIdentity reads what on a certificate is the device's id.
func parseIdentity(text string) (gateway.Identity, error) {
	var words []string
	for _, i := range gateway.Identities() {
		if i != gateway.AnyName {
			words = append(words, string(i))
		}
	}
	word, err := oneOf(text, "one of: "+strings.Join(words, ", "), words...)
	return gateway.Identity(word), err
}

// parseTLSVersion reads the least version of TLS.
func parseTLSVersion(text string) (string, error) {
	return oneOf(text, "one of: 1.2, 1.3", "1.2", "1.3")
}

// parseCipher reads the name of a cipher suite of TLS 1.2.
func parseCipher(text string) (string, error) {
	return oneOf(text, "one of: "+strings.Join(cert.Ciphers(), ", "), cert.Ciphers()...)
}

// perSecond reads how much of something a connection may send per second; 0 is no limit.
func perSecond(least int) func(text string) (int, error) {
	return func(text string) (int, error) {
		n, err := strictyaml.NumberIn(text, least, 1<<20, true)
		if err == nil && n == 0 {
			n = -1
		}
		return n, err
	}
}

// parseNetwork reads ADDRESS/BITS, or one address.
func parseNetwork(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil || p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%s is not a network; write one as 10.0.0.0/8 or 2001:db8::/32, or an address", strictyaml.Quote(text))
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("%s has more digits than its %d bits; write %s", strictyaml.Quote(text), p.Bits(), p.Masked())
	}
	return p, nil
}

func parseDTUMode(text string) (dtu.Mode, error) {
	return oneOf(text, "one of: once (when the connection begins), prefix (before each packet)", dtu.Once, dtu.Prefix)
}
