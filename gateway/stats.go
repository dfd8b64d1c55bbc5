package gateway

import "sync/atomic"

// counters are what Stats reports.
type counters struct {
	accepted, acceptErrors, enrollErrors              atomic.Uint64
	refusedFull, refusedAddress, unauthorized         atomic.Uint64
	handshakeTimeouts, idleTimeouts, slowReaders      atomic.Uint64
	mistakes, broken, closedByGateway, panics, warned atomic.Uint64
	throttled, duplicates                             atomic.Uint64

	loops []loopCounters
}

// loopCounters are written by one event loop each.
type loopCounters struct {
	messages atomic.Uint64
	_        [120]byte
}

// Stats is a picture of a gateway. All but Connections count up from its start.
type Stats struct {
	Connections       int
	Accepted          uint64
	AcceptErrors      uint64 // failed accepts, out of descriptors among them
	EnrollErrors      uint64 // accepted connections that could not be handed to an event loop
	RefusedFull       uint64 // connections turned away because there were too many, or no descriptors
	RefusedAddress    uint64 // because their address had too many
	Unauthorized      uint64
	Throttled         uint64 // hellos that were not looked at, because of wrong tokens from the same address
	Duplicates        uint64 // connections refused because two of them say, again and again, that they are the same device
	HandshakeTimeouts uint64
	IdleTimeouts      uint64
	SlowReaders       uint64 // closed because they left too much unread
	Mistakes          uint64 // messages of devices that were wrong, or came to nothing
	Broken            uint64 // connections closed because they broke the protocol
	Closed            uint64 // connections closed by the gateway after a verdict, a takeover or a deadline
	Panics            uint64
	Messages          uint64
	Odd               map[Oddity]uint64 // what was unusual and tolerated
}

// Stats returns a picture of the gateway.
func (g *Gateway) Stats() Stats {
	c := &g.counts
	st := Stats{
		Connections:       int(g.connections.Load()),
		Accepted:          c.accepted.Load(),
		AcceptErrors:      c.acceptErrors.Load(),
		EnrollErrors:      c.enrollErrors.Load(),
		RefusedFull:       c.refusedFull.Load(),
		RefusedAddress:    c.refusedAddress.Load(),
		Unauthorized:      c.unauthorized.Load(),
		Throttled:         c.throttled.Load(),
		Duplicates:        c.duplicates.Load(),
		Odd:               g.odd.all(),
		HandshakeTimeouts: c.handshakeTimeouts.Load(),
		IdleTimeouts:      c.idleTimeouts.Load(),
		SlowReaders:       c.slowReaders.Load(),
		Mistakes:          c.mistakes.Load(),
		Broken:            c.broken.Load(),
		Closed:            c.closedByGateway.Load(),
		Panics:            c.panics.Load(),
	}
	for i := range c.loops {
		st.Messages += c.loops[i].messages.Load()
	}
	return st
}
