package chaos

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"
)

// link is a node's way to the database, an ear's to a judge, or a replica's to its primary: a proxy that can be cut. Its
// methods may be called concurrently.
type link struct {
	listener net.Listener
	wire     *wire // to it; nil if there is no network
	work     sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	to    string     // address of the database or judge
	conns map[net.Conn]bool
	state linkState
	moved chan struct{} // closed when the state changes
}

type linkState int

const (
	whole       linkState = iota
	hanging               // nothing comes through, as when packets are lost
	refused               // all connections are reset, old and new ones
	hangingTo             // nothing comes through to what is behind the link
	hangingFrom           // nothing comes through from there
	slow                  // all comes through, in order, from slowLeast to slowMost later
	lossy                 // packets are a little later, and some are lost; only in a network
)

// The delays of a slow link, each way.
const (
	slowLeast = 20 * time.Millisecond
	slowMost  = 200 * time.Millisecond
)

// way is one of the two directions of a link.
type way int

const (
	there way = iota // to what is behind the link
	back
)

// holds reports whether the link holds up what goes one way.
func (s linkState) holds(w way) bool {
	return s == hanging || w == there && s == hangingTo || w == back && s == hangingFrom
}

// newLink starts a proxy at an address, and returns the URL of the database by way of it.
func newLink(ctx context.Context, at, database string) (*link, string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return nil, "", err
	}
	l, err := linkTo(ctx, at, u.Host)
	if err != nil {
		return nil, "", err
	}
	u.Host = l.address()
	return l, u.String(), nil
}

// linkTo starts a proxy at an address for another one. It notices as soon as the database does that a client is gone: the
// client asks that of the database.
func linkTo(ctx context.Context, at, to string) (*link, error) {
	alive := net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}
	listener, err := (&net.ListenConfig{KeepAliveConfig: alive}).Listen(ctx, "tcp", net.JoinHostPort(at, "0"))
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, to: to, conns: map[net.Conn]bool{}, moved: make(chan struct{})}
	l.work.Go(l.accept)
	return l, nil
}

// address is where the link is to be connected to.
func (l *link) address() string { return l.listener.Addr().String() }

// set changes the state. In a network, only resets are for the proxy to do.
func (l *link) set(s linkState) {
	if l.wire != nil && s != refused {
		l.wire.set(s)
		s = whole
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	close(l.moved)
	l.moved = make(chan struct{})
	if s == refused {
		l.reset()
	}
}

// lead makes connections from now on lead to another address.
func (l *link) lead(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
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

// through waits while the link holds up one of the ways, and reports whether a connection is still there.
func (l *link) through(c net.Conn, ways ...way) bool {
	for {
		l.mu.Lock()
		state, moved, kept := l.state, l.moved, l.conns[c]
		l.mu.Unlock()
		if !kept || !slices.ContainsFunc(ways, state.holds) {
			return kept
		}
		<-moved
	}
}

// serve connects a client to what is behind the link, once both ways are open.
func (l *link) serve(client net.Conn) {
	defer l.drop(client)
	if !l.through(client, there, back) {
		return
	}
	l.mu.Lock()
	to := l.to
	l.mu.Unlock()
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
	if err != nil || !l.keep(server) {
		return
	}
	defer l.drop(server)
	var both sync.WaitGroup
	both.Go(func() { l.copy(server, client, there) })
	l.copy(client, server, back)
	both.Wait()
}

// drop closes a connection.
func (l *link) drop(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	_ = c.Close() // it may be closed
}

// piece is what was read at once, and when it is to be written.
type piece struct {
	data []byte
	due  time.Time
}

// mostPieces is how many pieces a connection may have under way; no more is read then.
const mostPieces = 64

// copy copies what comes, until either end is closed. Then it closes both.
func (l *link) copy(to, from net.Conn, w way) {
	defer l.drop(to)
	defer l.drop(from)
	pieces := make(chan piece, mostPieces)
	l.work.Go(func() { l.read(from, pieces) })
	for p := range pieces {
		<-time.After(time.Until(p.due))
		if !l.through(to, w) {
			break
		}
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	l.through(to, w)
	l.drop(from)
	for range pieces { // until the reader ends
	}
}

// read reads until the end, and closes pieces.
func (l *link) read(from net.Conn, pieces chan<- piece) {
	defer close(pieces)
	buf := make([]byte, 64<<10)
	for due := time.Now(); ; {
		n, err := from.Read(buf)
		if now := time.Now().Add(l.delay()); now.After(due) {
			due = now
		}
		if n > 0 {
			pieces <- piece{bytes.Clone(buf[:n]), due}
		}
		if err != nil {
			return
		}
	}
}

// delay is how long what is read now is under way.
func (l *link) delay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != slow {
		return 0
	}
	return slowLeast + rand.N(slowMost-slowLeast)
}
