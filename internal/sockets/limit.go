package sockets

import (
	"net"
	"sync"
	"time"
)

const (
	// idleFor is how long a connection must have waited for its next request before it may be
	// closed for another one, and beginFor how long one whose first request, or TLS handshake, has
	// begun.
	idleFor  = time.Second
	beginFor = 5 * time.Second
	// roomAgain is when room is looked for again if there was none.
	roomAgain = 10 * time.Millisecond
)

// Limit returns a listener whose connections are tracked, and which has at most n of them open at a
// time, and one that waits for a place. To make room for that one it closes a connection on which
// no request is under way: the one that has been idle longest, for 1 s at least. [Conn.Begin] and
// [Conn.End] mark when a request is under way.
//
// It fails if there are no descriptors left.
func (s *Set) Limit(l net.Listener, n int) (net.Listener, error) {
	counted, err := Count(l)
	if err != nil {
		return nil, err
	}
	s.Listen(counted)
	return &limitListener{Listener: counted, places: make(chan struct{}, n), closed: make(chan struct{}), set: s}, nil
}

// Crowded reports whether a connection waits for a place.
func (s *Set) Crowded() bool { return s.crowded.Load() }

// Evicted returns how many idle connections were closed because others waited for a place.
func (s *Set) Evicted() uint64 { return s.evicted.Load() }

// Begin marks that a request is being handled: the connection is not closed for another one before
// End.
func (c *Conn) Begin() { c.idleSince.Store(inRequest) }

// End marks that the answer is written.
func (c *Conn) End() {
	c.served.Store(true)
	c.idleSince.Store(int64(time.Since(c.set.began)))
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

// evict closes the connection that has been idle longest, if one may be closed. One that holds
// something unread is not idle: its request has come, and nobody has had the time for it.
func (s *Set) evict() {
	if c := s.longestIdle(); c != nil {
		s.evicted.Add(1)
		_ = c.Close()
	}
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
	tracked.idleSince.Store(int64(time.Since(l.set.began)))
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
		l.set.evict()
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
