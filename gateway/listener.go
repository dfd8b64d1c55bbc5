package gateway

import (
	"strings"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/net/sockets"
	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
)

// listener is a [Listener] that is bound. A connection is settled once it is in an event loop, on
// the way to a handshake, or refused.
type listener struct {
	Listener

	accepts []*sockets.Listener
	rate    *rate.Limiter // of connections that are accepted
	source  *liveness.Source
	bound   string        // the address, with its network before it
	quota   operate.Quota // nil without MaxDevices
	refused atomic.Uint64 // new devices, for want of room
}

// acceptsOf returns the listeners that speak TLS, or the others.
func (g *Gateway) acceptsOf(tls bool) (some []*sockets.Listener) {
	for _, l := range g.listeners {
		if (l.TLS != nil) == tls {
			some = append(some, l.accepts...)
		}
	}
	return some
}

// sniff returns the protocol of a connection that begins with these bytes; nil if more of them are
// needed.
func (l *listener) sniff(first []byte) (codec.Protocol, *codec.Error) {
	maybe := false
	for _, p := range l.Protocols {
		if len(l.Protocols) == 1 {
			return p, nil
		}
		switch p.Sniff(first) {
		case codec.Yes:
			return p, nil
		case codec.Maybe:
			maybe = true
		case codec.No:
		}
	}
	if maybe && len(first) < maxSniff {
		return nil, nil
	}
	return nil, &codec.Error{Code: codec.NotSpoken, Text: "unknown protocol; this port speaks: " + l.names()}
}

// names returns the names of the listener's protocols.
func (l *listener) names() string {
	var names []string
	for _, p := range l.Protocols {
		names = append(names, p.Name())
	}
	return strings.Join(names, ", ")
}

// goodbye appends what a client is told that has not sent anything yet.
func (l *listener) goodbye(dst []byte, why string, err *codec.Error) []byte {
	if len(l.Protocols) == 1 {
		return l.Protocols[0].Codec().Goodbye(dst, why, err)
	}
	return dst
}
