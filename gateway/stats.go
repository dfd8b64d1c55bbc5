package gateway

import "sync/atomic"

// counters are what Stats reports.
type counters struct {
	accepted, acceptErrors, enrollErrors              atomic.Uint64
	refusedFull, refusedAddress, unauthorized         atomic.Uint64
	handshakeTimeouts, idleTimeouts, slowReaders      atomic.Uint64
	mistakes, broken, closedByGateway, panics, warned atomic.Uint64

	loops []loopCounters
}

// loopCounters are written by one event loop each.
type loopCounters struct {
	lines atomic.Uint64
	_     [120]byte
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
	HandshakeTimeouts uint64
	IdleTimeouts      uint64
	SlowReaders       uint64 // closed because they left too much unread
	Mistakes          uint64 // ERR lines sent
	Broken            uint64 // connections closed because they broke the protocol
	Closed            uint64 // connections closed by the gateway after a verdict, a takeover or a deadline
	Panics            uint64
	Lines             uint64
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
		HandshakeTimeouts: c.handshakeTimeouts.Load(),
		IdleTimeouts:      c.idleTimeouts.Load(),
		SlowReaders:       c.slowReaders.Load(),
		Mistakes:          c.mistakes.Load(),
		Broken:            c.broken.Load(),
		Closed:            c.closedByGateway.Load(),
		Panics:            c.panics.Load(),
	}
	for i := range c.loops {
		st.Lines += c.loops[i].lines.Load()
	}
	return st
}
