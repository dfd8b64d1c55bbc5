package gateway

import (
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

const (
	// maxBefore is how many bytes are held for a connection before its hello, without more ado; an MQTT
	// CONNECT with a long will or password may need more.
	maxBefore = 4 << 10
	// maxShaking is how many bytes may come of a TLS handshake: certificates of a client are among them.
	maxShaking = 16 << 10
	// mostLarge is how many connections may have more at a time, mostLargeOf how many of an address, and
	// largeFor how long one keeps its place if others want it.
	mostLarge, mostLargeOf = 256, 32
	largeFor               = 2 * time.Second
)

// errLarge ends a connection that sends much before its hello, for want of room.
var errLarge = &codec.Error{Code: codec.Busy, Text: "too many connections send much before they have said hello; come back later"}

// hold reports whether there is room for what is held for a connection that has not said hello, if that
// is more than maxBefore. The oldest such connection may have to make room.
func (g *Gateway) hold(c *connection) bool {
	oldest, ok := g.large.hold(c, c.known(), time.Now(), largeFor)
	if oldest != nil {
		oldest.finishSoon(ending{err: errLarge})
	}
	if !ok || oldest != nil {
		g.counts.evicted.Add(1)
		g.warnFull("too many connections send more than 4 KiB before they have said hello", c.known())
	}
	return ok
}

// holds returns how many bytes are held for a connection that left some of what was read: those, what
// its codec keeps, and those of a hello of which nobody has decided yet.
func (c *connection) holds(read, left int) int {
	if h, ok := c.codec.(codec.Holder); ok {
		left += h.Held()
	}
	if c.awaitsReply() {
		left += read
	}
	return left
}
