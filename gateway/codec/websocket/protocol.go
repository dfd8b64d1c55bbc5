package websocket

import (
	"bytes"
	"net/netip"
	"net/url"
	"slices"

	"github.com/holter-iot/holter/gateway/codec"
)

// Inner is the codec that is carried.
type Inner interface {
	codec.Live
	codec.Authenticator
	codec.Long
}

// Protocol carries another one. All fields but Origins are required.
type Protocol struct {
	// Inner is the protocol that is carried. Its codecs are [Inner].
	Inner codec.Protocol
	// Path is that of the request.
	Path string
	// Subprotocols are the names of the protocol, of which a client must offer one (RFC 6455, 1.9).
	Subprotocols []string
	// Origins are those of the pages, beside those that come from this address itself, whose scripts may
	// connect, as in https://fleet.example. A client that names no origin is no browser, and may.
	Origins func() []string
}

// Name implements [codec.Protocol].
func (*Protocol) Name() string { return "websocket" }

// Sniff implements [codec.Protocol].
func (*Protocol) Sniff(first []byte) codec.Guess {
	const method = "GET /"
	n := min(len(first), len(method))
	switch {
	case string(first[:n]) != method[:n]:
		return codec.No
	case n < len(method):
		return codec.Maybe
	}
	return codec.Yes
}

// Codec implements [codec.Protocol].
func (p *Protocol) Codec() codec.Codec {
	return &conn{protocol: p, Inner: p.Inner.Codec().(Inner)}
}

// Generation implements [codec.Reviewed]: it is that of the protocol that is carried.
func (p *Protocol) Generation() uint64 {
	r, ok := p.Inner.(codec.Reviewed)
	if !ok {
		return 0
	}
	return r.Generation()
}

// allows reports whether scripts of a page may connect, given the host that they connect to. A page of the
// same host may if that is no name: whoever owns a name can let it point here.
func (p *Protocol) allows(origin, host string) bool {
	if origin == "" || p.Origins != nil && slices.Contains(p.Origins(), origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host != host {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil || u.Hostname() == "localhost"
}

// requestEnd returns how long the request is that input begins with; 0 if it is not complete.
func requestEnd(input []byte) int {
	const end = "\r\n\r\n"
	if at := bytes.Index(input, []byte(end)); at >= 0 {
		return at + len(end)
	}
	return 0
}
