package sockets

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Set is the listeners and the connections of a server. Make one with [NewSet]. Its methods may be
// called concurrently.
type Set struct {
	began   time.Time
	crowded atomic.Bool   // a connection waits for a place
	evicted atomic.Uint64 // connections that were closed for one that waited

	mu        sync.Mutex         // guards the fields below, and keeps the descriptors from being closed
	listeners []*Listener        // where connections come from; only appended to
	open      map[int]*Conn      // by descriptor
	placed    map[*Conn]struct{} // those of limited listeners
	fds       []int              // room for a question
	poller    poller
	watch     watch
}

// NewSet returns an empty set.
func NewSet() *Set {
	return &Set{began: time.Now(), open: make(map[int]*Conn), placed: make(map[*Conn]struct{})}
}

// Conn is a connection that is tracked.
type Conn struct {
	net.Conn

	set       *Set
	once      sync.Once
	closed    func() // may be nil
	fd        int
	from      netip.Prefix // of one of a limited listener
	reads     atomic.Uint64
	quiet     atomic.Bool  // nobody reads from it for long, and nothing is expected
	served    atomic.Bool  // its latest request is answered
	handled   atomic.Bool  // it has a request that is not answered yet: more input is not waited for
	idleSince atomic.Int64 // nanoseconds since the set began, or inRequest; of those of a limited listener
}

// unread is a connection that holds unread bytes.
type unread struct {
	conn  *Conn
	reads uint64 // how often it was read from before that was found
}

// descriptorOf returns the descriptor of a connection, -1 for one that has none, as a pipe in
// memory.
func descriptorOf(of any) int {
	descriptor := -1
	if c, ok := of.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { descriptor = int(fd) }) // it fails for one that is closed
		}
	}
	return descriptor
}

// Listen adds a listener that connections come from. Its connections must be settled once they are
// tracked.
func (s *Set) Listen(l *Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
}

// all returns the listeners.
func (s *Set) all() []*Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listeners
}

// Track adds a connection, until it is closed through what is returned. It must be read and closed
// through that only.
func (s *Set) Track(c net.Conn) *Conn { return s.track(c, nil) }

// track is like Track; closed is called once when the connection is.
func (s *Set) track(c net.Conn, closed func()) *Conn {
	tracked := &Conn{Conn: c, set: s, closed: closed, fd: descriptorOf(c)}
	tracked.idleSince.Store(inRequest)
	if tracked.fd >= 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open[tracked.fd] = tracked
		s.watch.add(tracked.fd)
	}
	return tracked
}

// remove is called before the connection is closed.
func (s *Set) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.placed, c)
	if s.open[c.fd] == c {
		delete(s.open, c.fd)
	}
}

// admit notes that a connection has a place.
func (s *Set) admit(c *Conn) {
	c.from = addressOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placed[c] = struct{}{}
}

// begin makes ready for questions, until end is called.
func (s *Set) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.begin()
	for fd := range s.open {
		s.watch.add(fd)
	}
}

func (s *Set) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.end()
}

// unread appends the connections that hold something now.
func (s *Set) unread(found []unread) []unread {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.watch.ready(len(s.open), func(fd int) {
		if c := s.open[fd]; c != nil && !c.quiet.Load() { // one that is not open is about to be closed
			found = append(found, unread{c, c.reads.Load()})
		}
	})
	if told {
		return found
	}
	s.fds = s.fds[:0]
	for fd, c := range s.open {
		if !c.quiet.Load() {
			found = append(found, unread{c, c.reads.Load()}) // before it is asked whether it is readable
			s.fds = append(s.fds, fd)
		}
	}
	return s.onlyReadableLocked(found)
}

// still returns those of the connections that have not been read from since. A read that ends now
// may have begun before.
func (s *Set) still(some []unread) []unread {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fds = s.fds[:0]
	some = slices.DeleteFunc(some, func(u unread) bool {
		return s.open[u.conn.fd] != u.conn || u.conn.quiet.Load() || u.conn.reads.Load() >= u.reads+2
	})
	for _, u := range some {
		s.fds = append(s.fds, u.conn.fd)
	}
	return s.onlyReadableLocked(some)
}

// onlyReadableLocked returns those whose descriptor in fds can be read from.
func (s *Set) onlyReadableLocked(some []unread) []unread {
	known := s.poller.ask(s.fds)
	kept := some[:0]
	for i, u := range some {
		if known && s.poller.readable(i) {
			kept = append(kept, u)
		}
	}
	clear(some[len(kept):]) // what is closed is not held
	return kept
}

// Read reads, and counts that it did.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.reads.Add(1)
	return n, err
}

// Hush marks a connection on which nothing is expected any more and that is not read from: what it
// holds is not waited for.
func (c *Conn) Hush() { c.quiet.Store(true) }

// Close ends the tracking and closes the connection.
func (c *Conn) Close() error {
	c.set.remove(c)
	err := c.Conn.Close()
	if c.closed != nil {
		c.once.Do(c.closed)
	}
	return err
}
