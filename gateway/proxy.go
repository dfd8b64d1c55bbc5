package gateway

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/pires/go-proxyproto/tlvparse"

	"github.com/holter-iot/holter/gateway/codec"
)

const (
	// maxProxyHeader bounds a PROXY header, since it is held for each connection until it is
	// complete. A header may announce 64 KiB. An address takes up to 232 bytes, the names that
	// proxies add (the certificate's, the server's, the cipher, a unique id) some 100 each, and a
	// whole client certificate, which some add, 500 to 2000.
	maxProxyHeader = 3 << 10
	// maxProxyLine is the longest header of version 1, with its line end.
	maxProxyLine = 107
	// proxyPrefix is the length of what version 2 begins with: signature, version and command,
	// family, length.
	proxyPrefix = 16
)

// caller is what a PROXY header says of the client of the proxy.
type caller struct {
	address netip.Addr // not valid if the header does not say: it is the proxy's own connection, or it does not know
	name    string     // of the client's certificate, if the proxy has found it good; "" otherwise
}

// parseProxy takes a PROXY header (haproxy.org/download/3.0/doc/proxy-protocol.txt, versions 1 and
// 2) off input and returns its length, 0 if it is not complete.
func parseProxy(input []byte) (n int, from caller, err error) {
	if n, err = proxyLength(input); n == 0 || err != nil {
		return 0, caller{}, err
	}
	header := input[:n]
	local, unspec := isLocal(header)
	if unspec { // the library refuses it, the specification leaves that to the receiver
		header = bytes.Clone(header)
		header[12] = byte(proxyproto.LOCAL)
	}
	h, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(header), len(header)))
	if err != nil {
		return 0, caller{}, err
	}
	if local {
		return n, caller{}, nil
	}
	from.address, err = sourceOf(h)
	if err != nil {
		return 0, caller{}, err
	}
	tlvs, err := h.TLVs()
	if err != nil {
		return 0, caller{}, err
	}
	if from.name, err = certifiedName(tlvs); err != nil {
		return 0, caller{}, err
	}
	return n, from, nil
}

// proxyLength returns the length of the header that input begins with, 0 if it is not complete.
func proxyLength(input []byte) (int, error) {
	switch {
	case begins(input, "PROXY "):
		if end := bytes.IndexByte(input[:min(len(input), maxProxyLine)], '\n'); end >= 0 {
			return end + 1, nil
		}
		if len(input) >= maxProxyLine {
			return 0, fmt.Errorf("a header of version 1 has %d bytes at most", maxProxyLine)
		}
		return 0, nil
	case begins(input, string(proxyproto.SIGV2)):
		if len(input) < proxyPrefix {
			return 0, nil
		}
		n := proxyPrefix + int(binary.BigEndian.Uint16(input[proxyPrefix-2:]))
		if n > maxProxyHeader {
			return 0, fmt.Errorf("the header has %d bytes, want at most %d; let the proxy send fewer options", n, maxProxyHeader)
		}
		if len(input) < n {
			return 0, nil
		}
		return n, nil
	}
	return 0, errors.New("there is no PROXY header")
}

// begins reports whether input begins with a signature, as far as there is input.
func begins(input []byte, signature string) bool {
	n := min(len(input), len(signature))
	return string(input[:n]) == signature[:n]
}

// isLocal reports whether a header is for a connection of the proxy's own, such as a health check,
// and whether it is for one whose client the proxy cannot name. In version 1 both are the same, and
// the library knows it.
func isLocal(header []byte) (local, unspec bool) {
	if header[0] == 'P' {
		return false, false
	}
	local = header[12] == byte(proxyproto.LOCAL)
	return local, header[12] == byte(proxyproto.PROXY) && header[13] == byte(proxyproto.UNSPEC)
}

func sourceOf(h *proxyproto.Header) (netip.Addr, error) {
	switch a := h.SourceAddr.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap(), nil
	case *net.UDPAddr:
		return netip.Addr{}, errors.New("the header is for datagrams")
	default: // unknown, or not an address of the internet
		return netip.Addr{}, nil
	}
}

// certifiedName returns the common name of the client's certificate if the proxy has verified that.
// The certificate itself, if it is there, shows whether there are several.
func certifiedName(tlvs []proxyproto.TLV) (string, error) {
	at := slices.IndexFunc(tlvs, func(t proxyproto.TLV) bool { return t.Type == proxyproto.PP2_TYPE_SSL })
	if at < 0 {
		return "", nil
	}
	ssl, err := tlvparse.SSL(tlvs[at])
	switch value := tlvs[at].Value; {
	case err != nil && len(value) >= 5 && value[0]&tlvparse.PP2_BITFIELD_CLIENT_SSL == 0: // HAProxy says so of a client without TLS
		return "", nil
	case err != nil:
		return "", fmt.Errorf("what the header says of TLS cannot be read: %w", err)
	}
	if !ssl.Verified() || !ssl.ClientCertConn() && !ssl.ClientCertSess() {
		return "", nil
	}
	der, whole := ssl.ClientCert()
	if !whole {
		name, _ := ssl.ClientCN()
		return name, nil
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return "", fmt.Errorf("the client's certificate cannot be read: %w", err)
	}
	if len(commonNames(c)) == 0 {
		return "", nil
	}
	name, err := commonName(c)
	if err != nil {
		return "", fmt.Errorf("the client's certificate: %w", err)
	}
	return name, nil
}

// trusts reports whether connections from an address begin with a PROXY header.
func (l *listener) trusts(a netip.Addr) bool {
	for _, p := range l.Proxies {
		if p.Contains(a.WithZone("")) {
			return true
		}
	}
	return false
}

// behind is what is known of a connection that comes through a proxy.
type behind struct {
	awaited bool       // the header is still to come
	counted bool       // the address is in the address book
	address netip.Addr // the device's; not valid if it is not known
}

// throughProxy makes the conversation one that comes through a proxy.
func (t *conversation) throughProxy() { t.details = &details{behind: &behind{awaited: true}} }

// proxied returns what is known of the client of the proxy; nil for a conversation that comes
// through none.
func (t *conversation) proxied() *behind {
	if t.details == nil {
		return nil
	}
	return t.details.behind
}

// awaitsHeader reports whether the next input is a PROXY header.
func (t *conversation) awaitsHeader() bool {
	b := t.proxied()
	return b != nil && b.awaited
}

// from returns the device's address, given that of the other end of the connection.
func (t *conversation) from(remote netip.Addr) netip.Addr {
	if b := t.proxied(); b != nil && b.address.IsValid() {
		return b.address
	}
	return remote
}

// unwrap takes the PROXY header off the input of a conversation, and returns its length, 0 if it is
// not complete. After an error the connection is to be closed.
func (g *Gateway) unwrap(t *conversation, proxy netip.Addr, input []byte) (int, *codec.Error) {
	n, from, err := parseProxy(input)
	if err != nil {
		t.broken = true
		if n := g.counts.badProxyHeaders.Add(1); n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th … time
			g.log.Warn("a connection from a network of proxies has no valid PROXY header; it is closed", "error", err,
				"address", proxy, "times", n, "help", "let the proxy send one (HAProxy: send-proxy-v2), or take its network out of the listener's proxies")
		}
		return 0, &codec.Error{Code: codec.BadMessage, Text: err.Error()}
	}
	if n == 0 {
		return 0, nil
	}
	b := t.proxied()
	b.awaited, b.address, t.details.name = false, from.address, from.name
	if b.counted = g.addresses.enter(t.from(proxy), g.limits.Load().maxPerAddress); !b.counted {
		g.counts.refusedAddress.Add(1)
		g.warnFull("the address has as many connections as it may have", b.address)
		return 0, tooManyThere()
	}
	return n, nil
}

func tooManyThere() *codec.Error {
	return &codec.Error{Code: codec.Full, Text: "your address has reached its limit of connections"}
}

// left ends the counting of a connection whose device had an address.
func (g *Gateway) left(t *conversation, address netip.Addr) {
	if b := t.proxied(); b != nil && !b.counted {
		g.connections.Add(-1)
		return
	}
	g.leave(address)
}

// takeHeader takes the PROXY header off the input, and returns its length; 0 if it is not complete,
// or wrong.
func (c *conn) takeHeader(input []byte) int {
	n, err := c.gateway.unwrap(&c.conversation, c.other, input)
	if err != nil {
		if err.Code == codec.Full {
			c.Write(c.goodbye(c.listener, nil, "", err))
		}
		c.Close()
	} else if n > 0 {
		c.gateway.newcomers.back(&c.connection, c.known(), time.Now())
	}
	return n
}
