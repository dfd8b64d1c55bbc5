package mqttbridge

import (
	"net"
	"sync/atomic"
	"time"
)

// gate is a connection to a broker. It records when bytes came, and shortens PUBLISH packets beyond
// a limit, because the client library would hold a whole packet in memory. A shortened packet is
// well formed (its remaining length is rewritten: MQTT 3.1.1, section 2.2.3), so that it is
// acknowledged like any other, and recognised by its size.
type gate struct {
	net.Conn

	heard *atomic.Int64 // time of the last received byte, since base
	base  time.Time
	limit int // the largest remaining length

	header []byte // unread part of the current packet's header
	pass   int    // bytes of the packet still to pass on
	skip   int    // bytes to drop after them
	raw    [4096]byte
	unread []byte // of raw
}

// Read implements net.Conn.
func (g *gate) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if n := g.filter(p); n > 0 {
			return n, nil
		}
		if len(p) >= len(g.raw) && g.pass > len(p) && len(g.header) == 0 { // the middle of a packet needs no copy
			n, err := g.Conn.Read(p)
			g.pass -= n
			g.note(n)
			return n, err
		}
		n, err := g.Conn.Read(g.raw[:])
		g.unread = g.raw[:n]
		g.note(n)
		if n == 0 && err != nil {
			return 0, err
		}
	}
}

func (g *gate) note(n int) {
	if n > 0 {
		g.heard.Store(int64(time.Since(g.base)))
	}
}

// filter moves unread bytes that may pass into p, and returns their number. 0 means that more must
// be read.
func (g *gate) filter(p []byte) int {
	n := 0
	for n < len(p) {
		switch {
		case g.pass > 0 && len(g.header) > 0:
			moved := copy(p[n:], g.header)
			g.header = g.header[moved:]
			g.pass -= moved
			n += moved
		case len(g.unread) == 0:
			return n
		case g.pass > 0:
			moved := copy(p[n:], g.unread[:min(len(g.unread), g.pass)])
			g.unread = g.unread[moved:]
			g.pass -= moved
			n += moved
		case g.skip > 0:
			dropped := min(len(g.unread), g.skip)
			g.unread = g.unread[dropped:]
			g.skip -= dropped
		default:
			g.begin()
		}
	}
	return n
}

const publishType = 3

// begin reads a byte of the fixed header. Once the header is complete, it decides how much of the
// packet passes.
func (g *gate) begin() {
	b := g.unread[0]
	g.unread = g.unread[1:]
	g.header = append(g.header, b)
	if len(g.header) == 1 || b&0x80 != 0 && len(g.header) < 5 {
		return
	}
	length, shift := 0, 0
	for _, b := range g.header[1:] {
		length |= int(b&0x7f) << shift
		shift += 7
	}
	if g.header[0]>>4 == publishType && length > g.limit {
		g.skip = length - g.limit
		length = g.limit
		g.header = appendLength(g.header[:1], length)
	}
	g.pass = len(g.header) + length
}

// appendLength appends a remaining length.
func appendLength(b []byte, n int) []byte {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}
