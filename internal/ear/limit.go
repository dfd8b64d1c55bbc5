package ear

import (
	"net"
	"sync"
)

// Limit returns a listener whose connections are tracked, and which has at most n of them open at a time; others wait to be accepted, and
// the listening clock waits with them.
func (s *Sockets) Limit(l net.Listener, n int) net.Listener {
	s.Listen(l)
	return &limitListener{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{}), sockets: s}
}

type limitListener struct {
	net.Listener

	places  chan struct{} // holds a token for each open connection; never closed
	closed  chan struct{} // closed by Close
	sockets *Sockets
	once    sync.Once
}

func (l *limitListener) Accept() (net.Conn, error) {
	if !l.place() {
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return l.sockets.track(c, func() { <-l.places }), nil
}

// place waits for a place, and says whether there is one.
func (l *limitListener) place() bool {
	select {
	case l.places <- struct{}{}:
		return true
	default:
	}
	l.sockets.crowded.Store(true)
	defer l.sockets.crowded.Store(false)
	select {
	case l.places <- struct{}{}:
		return true
	case <-l.closed:
		return false
	}
}

// Close closes the listener; the connections stay open.
func (l *limitListener) Close() error {
	l.sockets.Stop()
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
