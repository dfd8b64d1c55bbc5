package gateway

import (
	"container/list"
	"net/netip"
	"sync"

	"github.com/holter-iot/holter/gateway/codec"
)

// newcomers are the connections that have not said hello. There is room for a part of
// MaxConnections. When there are more, the one goes that has been silent for longest, of the address
// of the one that comes if that has more than its share, else of all. So whoever connects and says
// nothing keeps nobody out who does, and a site whose devices come back all at once may use all room
// that there is.
type newcomers struct {
	limit, perAddress int

	mu        sync.Mutex // guards the fields below
	all       list.List  // of *newcomer, the oldest first
	addresses map[netip.Addr]*list.List
	known     map[*connection]*newcomer
}

// mostLeaving is how many connections above MaxConnections there may be for a moment: while others,
// which are to make room, are being closed.
const mostLeaving = 64

// newcomer is a connection in its place in the queue of all, and in that of its address.
type newcomer struct {
	*connection

	address  netip.Addr
	all, own *list.Element
}

func (n *newcomers) init(limit, perAddress int) {
	n.limit, n.perAddress = limit, perAddress
	n.addresses, n.known = make(map[netip.Addr]*list.List), make(map[*connection]*newcomer)
}

// enter adds a connection from an address, which is not valid if a PROXY header is to name it. It
// returns the one that has to go; nil if there is room.
func (n *newcomers) enter(c *connection, address netip.Addr) (goes *connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	own := n.addLocked(c, address)
	switch {
	case n.all.Len() <= n.limit:
		return nil
	case address.IsValid() && own.Len() > n.perAddress:
		return n.takeLocked(own)
	default:
		return n.takeLocked(&n.all)
	}
}

// back adds a connection that had to go and did not. Nobody has to go for it.
func (n *newcomers) back(c *connection, address netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addLocked(c, address)
}

// addLocked adds a connection as the youngest, and returns the queue of its address.
func (n *newcomers) addLocked(c *connection, address netip.Addr) *list.List {
	n.dropLocked(c)
	address = clientPrefix(address)
	own := n.addresses[address]
	if own == nil {
		own = list.New()
		n.addresses[address] = own
	}
	it := &newcomer{connection: c, address: address}
	it.all, it.own = n.all.PushBack(it), own.PushBack(it)
	n.known[c] = it
	return own
}

// oldest takes the one that has been silent for longest; nil if there is none.
func (n *newcomers) oldest() *connection {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.takeLocked(&n.all)
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
	if it == nil {
		return
	}
	delete(n.known, c)
	n.all.Remove(it.all)
	own := n.addresses[it.address]
	if own.Remove(it.own); own.Len() == 0 {
		delete(n.addresses, it.address)
	}
}

// welcome gives a connection that has been accepted a place among the newcomers.
func (g *Gateway) welcome(c *connection) {
	address := c.address()
	if c.awaitsHeader() { // which names it
		address = netip.Addr{}
	}
	if goes := g.newcomers.enter(c, address); goes != nil {
		g.evict(goes)
	}
}

// evict closes a connection that has said nothing, to make room for others.
func (g *Gateway) evict(c *connection) {
	text := "too many connections have not said hello, and this one was the oldest; say hello at once"
	c.where().soon(func() { c.finish(ending{evicts: true, err: &codec.Error{Code: codec.Full, Text: text}}) })
}

// spoken reports whether a connection that is to be evicted has something to say, and keeps its place
// then.
func (g *Gateway) spoken(c *connection) bool {
	if c.established {
		return true
	}
	if !c.link.silent() {
		g.newcomers.back(c, c.address())
		return true
	}
	g.counts.evicted.Add(1)
	g.warnFull("too many connections say nothing; the oldest of them is closed", c.address())
	return false
}

// makeRoom evicts a connection that has said nothing, if there is one, for one that is above
// MaxConnections.
func (g *Gateway) makeRoom() bool {
	if g.connections.Load() > int64(g.config.MaxConnections)+mostLeaving {
		return false
	}
	oldest := g.newcomers.oldest()
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
			"help", "look at who connects from there; the limits are max_connections, max_connections_per_address and max_newcomers of gateway")
	}
}
