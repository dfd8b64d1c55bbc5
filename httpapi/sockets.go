package httpapi

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// sockets are the connections that are served, so that it can be told which of them hold something that nobody has read yet.
type sockets struct {
	mu       sync.Mutex // guards the fields below, and keeps the descriptors from being closed
	listener int        // its descriptor, -1 without one
	open     map[*limitedConn]struct{}
	fds      []int // room for a question
}

func newSockets() *sockets { return &sockets{listener: -1, open: make(map[*limitedConn]struct{})} }

// unread is a connection that holds something that nobody has read.
type unread struct {
	conn  *limitedConn
	reads uint64 // how often it was read from before that was found
}

// descriptorOf returns the descriptor of a connection or listener, -1 for what has none, as a pipe in memory.
func descriptorOf(of any) int {
	descriptor := -1
	if c, ok := of.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { descriptor = int(fd) }) // it fails for one that is closed
		}
	}
	return descriptor
}

func (s *sockets) listen(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = descriptorOf(l)
}

func (s *sockets) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = -1
}

func (s *sockets) add(c *limitedConn) {
	c.fd = descriptorOf(c.Conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = struct{}{}
}

// remove is called before the connection is closed.
func (s *sockets) remove(c *limitedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// backlog says whether connections wait to be accepted.
func (s *sockets) backlog() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener >= 0 && readable([]int{s.listener})[0]
}

// unread returns the connections that hold something now.
func (s *sockets) unread() []unread {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fds = s.fds[:0]
	var found []unread
	for c := range s.open {
		if c.fd >= 0 && !c.quiet.Load() {
			found = append(found, unread{c, c.reads.Load()}) // before it is asked whether it is readable
			s.fds = append(s.fds, c.fd)
		}
	}
	return only(found, readable(s.fds))
}

// still returns those of the connections that nobody has read from since. One reading that ends now may have begun before.
func (s *sockets) still(some []unread) []unread {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fds = s.fds[:0]
	some = slices.DeleteFunc(some, func(u unread) bool {
		_, open := s.open[u.conn]
		return !open || u.conn.quiet.Load() || u.conn.reads.Load() >= u.reads+2
	})
	for _, u := range some {
		s.fds = append(s.fds, u.conn.fd)
	}
	return only(some, readable(s.fds))
}

// only returns those that are marked.
func only(some []unread, marked []bool) []unread {
	kept := some[:0]
	for i, u := range some {
		if marked[i] {
			kept = append(kept, u)
		}
	}
	return kept
}

type limitedConn struct {
	net.Conn

	listener *limitListener
	once     sync.Once
	fd       int
	reads    atomic.Uint64
	quiet    atomic.Bool // nobody reads from it for long, and nothing is expected
}

// Read counts.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.reads.Add(1)
	return n, err
}

// Close makes room for another.
func (c *limitedConn) Close() error {
	c.listener.sockets.remove(c)
	err := c.Conn.Close()
	c.once.Do(func() { <-c.listener.places })
	return err
}
