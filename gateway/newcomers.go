package gateway

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/clientprefix"
)

// newcomers are the connections that have not said hello. There is room for a part of
// MaxConnections. When there are more, those go that have been silent for longest, if that is longer
// than helloWithin: of the address of the one that comes if that has more than its share, else of
// all. So whoever connects and says nothing keeps nobody out who does, and a fleet that comes back
// all at once may use all room that there is.
type newcomers struct {
	limit, perAddress int

	mu        sync.Mutex // guards the fields below
	all       list.List  // of *newcomer, the oldest first
	addresses map[netip.Prefix]*list.List
	known     map[*connection]*newcomer // nil for one that hold has taken off, until it leaves
}

// By default an eighth of all connections may be newcomers: a fleet that comes back all at once says hello within
// milliseconds, and a flood of silent connections leaves seven eighths to devices. A small gateway has room for
// leastNewcomers all the same, because a few addresses may each send newcomersPerAddress.
const newcomersShare, leastNewcomers = 8, 256

// newcomersPerAddress is how many newcomers an address may have while there is no room. Behind one address there may
// be a site whose devices come back together; with 64, a flood from one address takes a quarter of the room at most.
const newcomersPerAddress = 64

// helloWithin is how long a newcomer may be silent however many there are, unless there are as many
// connections as there may be: a hello may need some round trips, and those of a handshake.
const helloWithin = 2 * time.Second

// mostLeaving is how many connections above MaxConnections there may be for a moment: while others,
// which are to make room, are being closed.
const mostLeaving = 64

// newcomer is a connection in its place in the queue of all, and in that of its address.
type newcomer struct {
	*connection

	from     netip.Prefix
	since    time.Time
	all, own *list.Element
}

// setLimit changes the limit; those that are too many go as others come.
func (n *newcomers) setLimit(limit int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.limit = limit
}

func (n *newcomers) init(limit, perAddress int) {
	n.limit, n.perAddress = limit, perAddress
	n.addresses, n.known = make(map[netip.Prefix]*list.List), make(map[*connection]*newcomer)
}

// enter adds a connection from an address, which is not valid if a PROXY header is to name it. It
// returns those that have to go: up to two, so that there are fewer again soon.
func (n *newcomers) enter(c *connection, address netip.Addr, now time.Time) (goes []*connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addLocked(c, address, now)
	for len(goes) < 2 && n.all.Len() > n.limit {
		queue := n.queueLocked(address)
		if now.Sub(queue.Front().Value.(*newcomer).since) < helloWithin {
			break
		}
		goes = append(goes, n.takeLocked(queue))
	}
	return goes
}

// hold adds a connection, unless it is there, and reports whether it is then. Where its address has its share,
// or all have taken the limit, the oldest there has to go if it has been there for so long as within, and is
// returned; else there is no room. For one that had to go there is none before it leaves.
func (n *newcomers) hold(c *connection, address netip.Addr, now time.Time, within time.Duration) (goes *connection, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if it, known := n.known[c]; known {
		return nil, it != nil
	}
	full := n.addresses[clientprefix.Of(address)]
	switch {
	case full != nil && full.Len() >= n.perAddress:
	case n.all.Len() >= n.limit:
		full = &n.all
	default:
		full = nil
	}
	if full != nil {
		if now.Sub(full.Front().Value.(*newcomer).since) < within {
			return nil, false
		}
		goes = n.takeLocked(full)
		n.known[goes] = nil // it may send more before it is closed
	}
	n.addLocked(c, address, now)
	return goes, true
}

// back adds a connection that had to go and did not. Nobody has to go for it.
func (n *newcomers) back(c *connection, address netip.Addr, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addLocked(c, address, now)
}

// queueLocked returns the queue whose first is to go when one comes from an address: that of the
// address, if it has more than its share.
func (n *newcomers) queueLocked(address netip.Addr) *list.List {
	if own := n.addresses[clientprefix.Of(address)]; address.IsValid() && own != nil && own.Len() > n.perAddress {
		return own
	}
	return &n.all
}

// addLocked adds a connection as the youngest.
func (n *newcomers) addLocked(c *connection, address netip.Addr, now time.Time) {
	n.dropLocked(c)
	from := clientprefix.Of(address)
	own := n.addresses[from]
	if own == nil {
		own = list.New()
		n.addresses[from] = own
	}
	it := &newcomer{connection: c, from: from, since: now}
	it.all, it.own = n.all.PushBack(it), own.PushBack(it)
	n.known[c] = it
}

// oldest takes the one that is to go for one from an address; nil if there is none.
func (n *newcomers) oldest(address netip.Addr) *connection {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.takeLocked(n.queueLocked(address))
}

// leave drops a connection that has said hello, or has ended.
func (n *newcomers) leave(c *connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropLocked(c)
}

// count returns how many there are.
func (n *newcomers) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all.Len()
}

// takeLocked takes the first of a queue off.
func (n *newcomers) takeLocked(queue *list.List) *connection {
	first := queue.Front()
	if first == nil {
		return nil
	}
	c := first.Value.(*newcomer).connection
	n.dropLocked(c)
	return c
}

func (n *newcomers) dropLocked(c *connection) {
	it := n.known[c]
	delete(n.known, c)
	if it == nil {
		return
	}
	n.all.Remove(it.all)
	own := n.addresses[it.from]
	if own.Remove(it.own); own.Len() == 0 {
		delete(n.addresses, it.from)
	}
}

// welcome gives a connection that has been accepted a place among the newcomers.
func (g *Gateway) welcome(c *connection) {
	for _, oldest := range g.newcomers.enter(c, c.known(), time.Now()) {
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
		g.newcomers.back(c, c.known(), time.Now())
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
	oldest := g.newcomers.oldest(address)
	if oldest != nil {
		g.evict(oldest)
	}
	return oldest != nil
}

// warnFull logs that a connection is turned away or closed for want of room: the 1st, 2nd, 4th, 8th …
// time for a reason.
func (g *Gateway) warnFull(what string, address netip.Addr) {
	if n := g.full.count(what); n&(n-1) == 0 {
		g.log.Warn("there is no room for a connection", "reason", what, "times", n, "address", address, "connections", g.connections.Load(), "newcomers", g.newcomers.count(),
			"help", "look at who connects from there; the limits are max_connections and max_connections_per_address of gateway")
	}
}
