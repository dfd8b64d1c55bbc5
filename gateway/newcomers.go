package gateway

import (
	"net/netip"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// The newcomers of a gateway are the connections that have not said hello. There is room for a part
// of MaxConnections. When there are more, those go that have been silent for longest, if that is
// longer than helloWithin: of the address of the one that comes if that has more than its share, else
// of all. So whoever connects and says nothing keeps nobody out who does, and a fleet that comes back
// all at once may use all room that there is.
//
// helloWithin is how long a newcomer may be silent however many there are, unless there are as many
// connections as there may be: a hello may need some round trips, and those of a handshake.
const helloWithin = 2 * time.Second

// mostLeaving is how many connections above MaxConnections there may be for a moment: while others,
// which are to make room, are being closed.
const mostLeaving = 64

// welcome gives a connection that has been accepted a place among the newcomers.
func (g *Gateway) welcome(c *connection) {
	for _, oldest := range g.newcomers.Enter(c, c.known(), time.Now(), helloWithin) {
		g.evict(oldest)
	}
}

// known returns the device's address; not a valid one if a PROXY header is to name it.
func (c *connection) known() netip.Addr {
	if c.awaitsHeader() {
		return netip.Addr{}
	}
	return c.address()
}

// evict closes a connection that has said nothing, to make room for others. One over TLS is closed on a goroutine of its own: here may be
// an event loop's, whose table of descriptors has another file, or none, under the number of its socket.
func (g *Gateway) evict(c *connection) {
	text := "too many connections have not said hello, and this one was the oldest; say hello at once"
	c.finishSoon(ending{evicts: true, err: &codec.Error{Code: codec.Full, Text: text}})
}

// finishSoon finishes the connection on another goroutine, or later on this one.
func (c *connection) finishSoon(e ending) {
	if l := c.where(); l != nil {
		l.soon(func() { c.finish(e) })
	} else {
		go c.finish(e)
	}
}

// spoken reports whether a connection that is to be evicted has something to say, and keeps its place
// then.
func (g *Gateway) spoken(c *connection) bool {
	if c.established {
		return true
	}
	if !c.link.silent() {
		g.newcomers.Back(c, c.known(), time.Now())
		return true
	}
	g.counts.evicted.Add(1)
	g.warnFull("too many connections say nothing; the oldest of them is closed", c.address())
	return false
}

// makeRoom evicts a connection that has said nothing, if there is one, for one from an address that
// is above MaxConnections.
func (g *Gateway) makeRoom(address netip.Addr) bool {
	if g.connections.Load() > int64(g.limits.Load().maxConnections)+mostLeaving {
		return false
	}
	oldest := g.newcomers.Oldest(address)
	if oldest != nil {
		g.evict(oldest)
	}
	return oldest != nil
}

// warnFull logs that a connection is turned away or closed for want of room: the 1st, 2nd, 4th, 8th …
// time for a reason.
func (g *Gateway) warnFull(what string, address netip.Addr) {
	if n := g.full.count(what); n&(n-1) == 0 {
		g.log.Warn("there is no room for a connection", "reason", what, "times", n, "address", address, "connections", g.connections.Load(), "newcomers", g.newcomers.Len(),
			"help", "look at who connects from there; the limits are max_connections, max_connections_per_address and max_newcomers of gateway")
	}
}
