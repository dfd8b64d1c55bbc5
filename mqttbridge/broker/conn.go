package broker

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/internal/sockets"
	"github.com/holter-iot/holter/liveness"
)

// errSlow ends a connection whose client does not take what is sent to it.
var errSlow = errors.New("broker: the client does not take what is sent to it")

// conn is the connection of a client. The fields of its first part belong to the goroutine that serves it, but where said otherwise.
type conn struct {
	*sockets.Conn

	broker   *Broker
	raw      syscall.RawConn
	client   *mqtt.Client // set before the session is opened, then read by all
	session  liveness.Session
	idle     time.Duration // of a client that is no device: how long it may say nothing; 0: for ever
	turn     uint32        // of what was read and is not handled
	flying   bool
	admitted bool // CONNECT was taken
	device   bool // the session was opened
	will     bool
	noWill   bool   // the will's payload is empty, for which a stand-in was put
	bye      bool   // DISCONNECT was read
	refused  bool   // and counted
	release  func() // the turn of its id, nil if it is not this connection's
	head     header

	greeted     atomic.Bool // the session is open, and client is set
	subscribing atomic.Bool
	window      int // how many messages may be in flight to the client; set before it is greeted
	asked       []wanted
	unsent      atomic.Int64 // bytes

	mu       sync.Mutex // guards the fields below
	failed   error
	pending  []byte // waits for the kernel to take it; what is being sent is not in it
	draining bool
	room     chan struct{} // has room for one; receives when the kernel took something
	wanted   []wanted      // retained messages that are to be sent
	sending  bool
}

// connOf returns the connection of a client, nil for the program's own.
func connOf(cl *mqtt.Client) *conn {
	switch c := cl.Net.Conn.(type) {
	case *conn:
		return c
	case *tls.Conn:
		if c, ok := c.NetConn().(*conn); ok {
			return c
		}
	}
	return nil
}

func newConn(b *Broker, tcp *net.TCPConn) (*conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	_ = tcp.SetReadDeadline(time.Now().Add(b.config.ConnectTimeout))
	return &conn{Conn: b.sockets.Track(tcp), broker: b, raw: raw, room: make(chan struct{}, 1)}, nil
}

// Read reads. What the read before brought is handled when the next is asked for: whoever reads has no whole packet left.
func (c *conn) Read(p []byte) (int, error) {
	c.land()
	if c.idle > 0 {
		_ = c.Conn.SetReadDeadline(time.Now().Add(c.idle))
	}
	n, err := c.Conn.Read(p)
	c.turn, c.flying = c.broker.clock.Enter(), true
	if err == nil && !c.admitted && c.broker.config.TLS == nil {
		err = c.head.check(p[:n])
	}
	return n, err
}

// takeTurn waits until it is the turn of the connection's id. What lies between reading and that is not waited for by the clock.
func (c *conn) takeTurn() {
	if c.release == nil {
		c.land()
		c.release = c.broker.turns.take(c.client.ID)
	}
}

// land says that all that was read is handled.
func (c *conn) land() {
	if c.flying {
		c.flying = false
		c.broker.clock.Leave(c.turn)
	}
}

// SetDeadline does nothing: deadlines are the broker's business. The protocol's implementation sets one for each packet, and it is wrong.
func (c *conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (c *conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// Write sends what the kernel takes now, and queues the rest. It never waits.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return 0, c.failed
	}
	n := 0
	if !c.draining {
		if n, c.failed = sockets.WriteNow(c.raw, p); c.failed != nil || n == len(p) {
			return n, c.failed
		}
	}
	if most := 2 * (c.broker.config.MaxUnsent + c.broker.config.MaxPacket); int(c.unsent.Load())+len(p)-n > most {
		c.failLocked(errSlow)
		return n, errSlow
	}
	c.pending = append(c.pending, p[n:]...)
	c.unsent.Add(int64(len(p) - n))
	if !c.draining {
		c.draining = true
		c.broker.tasks.Go(c.drain)
	}
	return len(p), nil
}

// failLocked ends the connection because it cannot be written to.
func (c *conn) failLocked(err error) {
	if c.failed == nil {
		c.failed = err
		c.broker.counts.slow.Add(1)
	}
	_ = c.Close()
}

// drain sends what is queued.
func (c *conn) drain() {
	for {
		c.mu.Lock()
		chunk := c.pending
		c.pending = nil
		if len(chunk) == 0 || c.failed != nil {
			_ = c.Conn.SetWriteDeadline(time.Time{}) // it would end the next try
			c.draining = false
			c.unsent.Store(0)
			c.mu.Unlock()
			c.tellRoom()
			return
		}
		c.mu.Unlock()
		const atOnce = 16 << 10 // progress within SendTimeout is asked for
		for len(chunk) > 0 {
			part := chunk[:min(len(chunk), atOnce)]
			chunk = chunk[len(part):]
			_ = c.Conn.SetWriteDeadline(time.Now().Add(c.broker.config.SendTimeout))
			if _, err := c.Conn.Write(part); err != nil {
				c.mu.Lock()
				c.failLocked(err)
				c.mu.Unlock()
				break
			}
			c.unsent.Add(-int64(len(part)))
			c.tellRoom()
		}
	}
}

func (c *conn) tellRoom() {
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// full reports whether a message is better dropped.
func (c *conn) full() bool { return c.unsent.Load() > int64(c.broker.config.MaxUnsent) }

// Replaced implements liveness.Peer.
func (c *conn) Replaced() { c.broker.closer.add(c, packets.ErrSessionTakenOver) }

// Dismissed implements liveness.Peer.
func (c *conn) Dismissed() { c.broker.closer.add(c, packets.ErrAdministrativeAction) }

// Committed implements liveness.Peer.
func (c *conn) Committed() {}

// Judged implements liveness.Peer.
func (c *conn) Judged() { c.broker.closer.add(c, packets.ErrKeepAliveTimeout) }

// Probe implements liveness.Peer. In MQTT only the client pings.
func (c *conn) Probe() bool { return false }

// header looks at the first bytes of a connection: nobody may announce a large packet before it is known who he is.
type header struct {
	seen   int // bytes
	length int
	done   bool
}

// check returns an error if what begins with what was checked before is not a CONNECT of a bearable size.
func (h *header) check(p []byte) error {
	for _, b := range p {
		switch {
		case h.done:
			return nil
		case h.seen == 0:
			if b>>4 != packets.Connect {
				return packets.ErrProtocolViolationRequireFirstConnect
			}
		default:
			h.length |= int(b&0x7f) << (7 * (h.seen - 1))
			h.done = b&0x80 == 0
		}
		if h.seen++; h.length > maxConnect {
			return packets.ErrPacketTooLarge
		} else if h.seen > 4 && !h.done {
			return packets.ErrMalformedVariableByteInteger
		}
	}
	return nil
}
