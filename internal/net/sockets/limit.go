package sockets

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/clientprefix"
)

const (
	// idleFor is how long a connection must have waited for its next request before it may be
	// closed for another one, and beginFor how long one whose first request, or TLS handshake, has
	// begun.
	idleFor  = time.Second
	beginFor = 5 * time.Second
	// crowdFor is how long one of a stranger may take if his address has more than its share. It
	// bounds how many a second such an address can have accepted, so that a fleet behind one address
	// is not closed as fast as it comes.
	crowdFor = 250 * time.Millisecond
	// share is the part of the places that an address may have for strangers while there is no room.
	share = 16
	// roomAgain is when room is looked for again if there was none.
	roomAgain = 10 * time.Millisecond
)

// Limit returns a listener whose connections are tracked, and which has at most n of them open at a
// time, and one that waits for a place. To make room for that one it closes another.
//
// Whoever has not shown that he may ask is a stranger: from when he connects, or [Conn.Begin], to
// [Conn.Keep] or [Conn.End]. If an address has more strangers than its share of the places, a 16th,
// the oldest of the address that has the most goes, after 250 ms. So one address cannot keep others
// out with requests that have no end, and its own latest ones are heard as well. Otherwise the
// connection goes that has been idle longest, for 1 s at least, or whose stranger has taken longest
// to ask, for 5 s at least. Between [Conn.Keep] and [Conn.End] none goes.
//
// It fails if there are no descriptors left.
func (s *Set) Limit(l net.Listener, n int) (net.Listener, error) {
	counted, err := Count(l)
	if err != nil {
		return nil, err
	}
	s.Listen(counted)
	return &limitListener{Listener: counted, places: make(chan struct{}, n), share: max(n/share, 1), closed: make(chan struct{}), set: s}, nil
}

// Crowded reports whether a connection waits for a place.
func (s *Set) Crowded() bool { return s.crowded.Load() }

// Evicted returns how many connections were closed because others waited for a place.
func (s *Set) Evicted() uint64 { return s.evicted.Load() }

// Begin marks that a request has been read, of which it is not known, or no longer, whether it may be
// asked.
func (c *Conn) Begin() {
	c.handled.Store(true)
	c.served.Store(false)
	c.idleSince.Store(int64(time.Since(c.set.began)))
}

// Keep marks that the request may be asked: the connection is not closed for another one before End.
func (c *Conn) Keep() { c.idleSince.Store(inRequest) }

// End marks that the answer is written.
func (c *Conn) End() {
	c.handled.Store(false)
	c.served.Store(true)
	c.idleSince.Store(int64(time.Since(c.set.began)))
}

// isStranger reports whether it is not known that the client may ask.
func (c *Conn) isStranger() bool { return c.idleSince.Load() != inRequest && !c.served.Load() }

// addressOf returns what counts as one client; not a valid network if there is no address.
func addressOf(c net.Conn) netip.Prefix {
	if at, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return clientprefix.Of(at.AddrPort().Addr())
	}
	return netip.Prefix{}
}

// inRequest is the idleSince of a connection on which a request is under way.
const inRequest = -1

// evictable reports whether the connection may be closed for another one, by its state alone.
func (c *Conn) evictable(now int64) bool {
	since := c.idleSince.Load()
	if since == inRequest {
		return false
	}
	if !c.served.Load() && c.reads.Load() > 0 {
		return now-since >= int64(beginFor)
	}
	return now-since >= int64(idleFor)
}

// evict closes a connection for another one, if one may be closed. One that holds something unread is
// not idle: its request has come, and nobody has had the time for it.
func (s *Set) evict(share int) {
	c := s.surplus(share)
	if c == nil {
		c = s.longestIdle()
	}
	if c != nil {
		s.evicted.Add(1)
		_ = c.Close()
	}
}

// surplus returns the oldest stranger of the address that has the most, if these are more than its share. It
// looks at each connection that has a place.
func (s *Set) surplus(share int) (oldest *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	crowds := make(map[netip.Prefix]int)
	var most netip.Prefix
	for c := range s.placed {
		if c.isStranger() && c.from.IsValid() {
			if crowds[c.from]++; crowds[c.from] > crowds[most] {
				most = c.from
			}
		}
	}
	if crowds[most] <= share {
		return nil
	}
	var crowd []*Conn
	s.fds = s.fds[:0]
	for c := range s.placed {
		if c.from == most && c.isStranger() {
			crowd, s.fds = append(crowd, c), append(s.fds, c.fd)
		}
	}
	asked, now := s.poller.ask(s.fds), int64(time.Since(s.began))
	for i, c := range crowd {
		since := c.idleSince.Load()
		switch {
		case since == inRequest || now-since < int64(crowdFor):
		case asked && s.poller.readable(i) && !c.handled.Load():
			c.idleSince.CompareAndSwap(since, now)
		case oldest == nil || since < oldest.idleSince.Load():
			oldest = c
		}
	}
	return oldest
}

func (s *Set) longestIdle() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := int64(time.Since(s.began))
		var oldest *Conn
		for _, c := range s.open {
			if c.evictable(now) && (oldest == nil || c.idleSince.Load() < oldest.idleSince.Load()) {
				oldest = c
			}
		}
		if oldest == nil {
			return nil
		}
		s.fds = append(s.fds[:0], oldest.fd)
		if !s.poller.ask(s.fds) {
			return nil
		}
		since := oldest.idleSince.Load()
		if !s.poller.readable(0) && since != inRequest {
			return oldest
		}
		oldest.idleSince.CompareAndSwap(since, now) // it is not the longest idle one any more
	}
}

type limitListener struct {
	*Listener

	places chan struct{} // holds a token for each open connection; never closed
	share  int           // of an address
	closed chan struct{} // closed by Close
	set    *Set
	once   sync.Once
}

// Accept waits for a connection, and for a place for it. One that waits is tracked already: what it
// says is unread.
func (l *limitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	defer l.Settle()
	placed := false
	tracked := l.set.track(c, func() {
		if placed {
			<-l.places
		}
	})
	if !l.place() {
		_ = tracked.Close()
		return nil, net.ErrClosed
	}
	placed = true
	l.set.admit(tracked)
	tracked.idleSince.Store(int64(time.Since(l.set.began))) // now it may go for another one
	return tracked, nil
}

// place waits for a place, and reports whether there is one.
func (l *limitListener) place() bool {
	select {
	case l.places <- struct{}{}:
		return true
	default:
	}
	l.set.crowded.Store(true)
	defer l.set.crowded.Store(false)
	tick := time.NewTicker(roomAgain)
	defer tick.Stop()
	for {
		l.set.evict(l.share)
		select {
		case l.places <- struct{}{}:
			return true
		case <-tick.C:
		case <-l.closed:
			return false
		}
	}
}

// Close closes the listener; the connections stay open.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
