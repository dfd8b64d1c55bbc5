package gateway

import (
	"sync/atomic"
	"time"
)

// counters are what Stats reports.
type counters struct {
	accepted, acceptErrors, enrollErrors                         atomic.Uint64
	refusedFull, refusedAddress, evicted, unauthorized, revoked  atomic.Uint64
	handshakeTimeouts, idleTimeouts, slowReaders, slowed, floods atomic.Uint64
	mistakes, broken, closedByGateway, panics, warned            atomic.Uint64
	throttled, duplicates, sent                                  atomic.Uint64
	probes, probesLeftOut                                        atomic.Uint64

	badProxyHeaders, tlsMessages         atomic.Uint64
	handshakes, resumed, handshakeErrors atomic.Uint64

	loops []loopCounters
}

// loopCounters are written by one event loop each.
type loopCounters struct {
	messages atomic.Uint64

	_ [120]byte
}

// Stats is a snapshot of a gateway. All but Connections, MaxConnections and DuplicateIDs count up from
// its start.
type Stats struct {
	Connections       int
	MaxConnections    int // as in Config
	Accepted          uint64
	AcceptErrors      uint64 // failed accepts, out of descriptors among them
	EnrollErrors      uint64 // accepted connections that could not be handed to an event loop
	RefusedFull       uint64 // connections turned away because there were too many, or no descriptors
	RefusedAddress    uint64 // because their address had too many
	Newcomers         int    // connections that have not said hello,
	Evicted           uint64 // and those that were closed because there were too many
	Unauthorized      uint64
	Revoked           uint64 // connections closed because the device's token or certificate was revoked
	Throttled         uint64 // hellos that were not looked at, because of wrong tokens from the same address; only of devices whose token may be guessed
	Duplicates        uint64 // connections refused because two of them say, again and again, that they are the same device
	DuplicateIDs      int    // devices of which there are two at the moment, so that one of them is refused
	HandshakeTimeouts uint64
	IdleTimeouts      uint64
	BadProxyHeader    uint64 // connections from a network of proxies without a good PROXY header
	Handshakes        uint64 // TLS handshakes that were done,
	Resumed           uint64 // those among them that resumed a session,
	HandshakeErrors   uint64 // and those that failed
	SlowReaders       uint64 // closed because they left too much unread
	Slowed            uint64 // times that a connection began to send too much, so that it was read more slowly
	Floods            uint64 // connections that were closed because they had sent too much for a minute
	Mistakes          uint64 // messages of devices that were wrong, or came to nothing
	Broken            uint64 // connections closed because they broke the protocol
	Closed            uint64 // connections closed by the gateway after a verdict, a takeover or a deadline, or to drain
	Panics            uint64
	Messages          uint64
	Sent              uint64            // messages that Send wrote
	Probes            uint64            // devices that were asked for a sign of life,
	ProbesLeftOut     uint64            // and that were not, because there were too many, or they do not read
	Odd               map[Oddity]uint64 // what was unusual and tolerated
	Packets           PacketStats
	Listeners         []ListenerStats // in the order of Config.Listen
}

// Stats returns a snapshot of the gateway.
func (g *Gateway) Stats() Stats {
	c := &g.counts
	st := Stats{
		Connections:       int(g.connections.Load()),
		MaxConnections:    g.config.MaxConnections,
		Accepted:          c.accepted.Load(),
		AcceptErrors:      c.acceptErrors.Load(),
		EnrollErrors:      c.enrollErrors.Load(),
		RefusedFull:       c.refusedFull.Load(),
		RefusedAddress:    c.refusedAddress.Load(),
		Newcomers:         g.newcomers.count(),
		Evicted:           c.evicted.Load(),
		Unauthorized:      c.unauthorized.Load(),
		Revoked:           c.revoked.Load(),
		Throttled:         c.throttled.Load(),
		Duplicates:        c.duplicates.Load(),
		DuplicateIDs:      g.duplicateIDs.Above(time.Now(), maxTakeovers),
		Odd:               g.odd.all(),
		HandshakeTimeouts: c.handshakeTimeouts.Load(),
		IdleTimeouts:      c.idleTimeouts.Load(),
		BadProxyHeader:    c.badProxyHeaders.Load(),
		Handshakes:        c.handshakes.Load(),
		Resumed:           c.resumed.Load(),
		HandshakeErrors:   c.handshakeErrors.Load(),
		SlowReaders:       c.slowReaders.Load(),
		Slowed:            c.slowed.Load(),
		Floods:            c.floods.Load(),
		Mistakes:          c.mistakes.Load(),
		Broken:            c.broken.Load(),
		Closed:            c.closedByGateway.Load(),
		Panics:            c.panics.Load(),
		Messages:          c.tlsMessages.Load(),
		Sent:              c.sent.Load(),
		Probes:            c.probes.Load(),
		ProbesLeftOut:     c.probesLeftOut.Load(),
	}
	st.Packets, st.Listeners = g.udp.stats(), g.listenerStats()
	for i := range c.loops {
		st.Messages += c.loops[i].messages.Load()
	}
	return st
}
