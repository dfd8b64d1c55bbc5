package chaos

import (
	"context"
	"net"
	"net/url"
	"sync"
)

// link is a node's way to the database, or an ear's to a judge: a proxy that can be cut. Its methods may be called
// concurrently.
type link struct {
	listener net.Listener
	to       string // address of the database or judge
	work     sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	conns map[net.Conn]bool
	state linkState
	moved chan struct{} // closed when the state changes
}

type linkState int

const (
	whole   linkState = iota
	hanging           // nothing comes through, as when packets are lost
	refused           // all connections are reset, old and new ones
)

// newLink starts a proxy, and returns the URL of the database by way of it.
func newLink(ctx context.Context, database string) (*link, string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return nil, "", err
	}
	l, err := linkTo(ctx, u.Host)
	if err != nil {
		return nil, "", err
	}
	u.Host = l.address()
	return l, u.String(), nil
}

// linkTo starts a proxy for an address.
func linkTo(ctx context.Context, to string) (*link, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, to: to, conns: map[net.Conn]bool{}, moved: make(chan struct{})}
	l.work.Go(l.accept)
	return l, nil
}

// address is where the link is to be connected to.
func (l *link) address() string { return l.listener.Addr().String() }

// set changes the state.
func (l *link) set(s linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	close(l.moved)
	l.moved = make(chan struct{})
	if s == refused {
		l.reset()
	}
}

// reset resets all connections. Call it with mu held.
func (l *link) reset() {
	for c := range l.conns {
		_ = c.(*net.TCPConn).SetLinger(0) // fails only if it is closed
		_ = c.Close()
	}
	clear(l.conns)
}

// close ends all, and waits for it.
func (l *link) close() error {
	err := l.listener.Close()
	l.set(refused)
	l.work.Wait()
	return err
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		if l.keep(client) {
			l.work.Go(func() { l.serve(client) })
		}
	}
}

// keep notes a connection, or resets it.
func (l *link) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	if l.state == refused {
		l.reset()
		return false
	}
	return true
}

// through waits while the link hangs, and reports whether a connection is still there.
func (l *link) through(c net.Conn) bool {
	for {
		l.mu.Lock()
		state, moved, there := l.state, l.moved, l.conns[c]
		l.mu.Unlock()
		if state != hanging || !there {
			return there
		}
		<-moved
	}
}

// serve connects a client to what is behind the link.
func (l *link) serve(client net.Conn) {
	defer l.drop(client)
	if !l.through(client) {
		return
	}
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", l.to)
	if err != nil || !l.keep(server) {
		return
	}
	defer l.drop(server)
	var both sync.WaitGroup
	both.Go(func() { l.copy(server, client) })
	l.copy(client, server)
	both.Wait()
}

// drop closes a connection.
func (l *link) drop(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	_ = c.Close() // it may be closed
}

// copy copies what comes, until either end is closed. Then it closes both.
func (l *link) copy(to, from net.Conn) {
	defer l.drop(to)
	defer l.drop(from)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !l.through(to) {
			return
		}
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}
