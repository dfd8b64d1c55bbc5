package mqtt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/holter-iot/holter/bench/internal/loopback"
)

const (
	dialing = 256 // connections on their way at a time
	tick    = 2 * time.Millisecond
)

// client is an MQTT client that pings.
type client struct {
	phase  phase
	sent   time.Time // just before the last packet was written
	heard  time.Time // when the answer to the last packet of all was seen
	closed time.Time // when the broker was seen to have closed the connection
}

type phase uint8

const (
	connecting phase = iota // CONNECT was not sent
	awaiting                // it was sent, CONNACK has not come
	greeted
)

// class is the clients that have a keep alive in common. Each pings twice in that time.
type class struct {
	keepAlive time.Duration
	members   []int // in the order in which they are to ping
	due       []time.Time
}

// fleet is the clients of one broker. It is for one goroutine.
type fleet struct {
	conns   *loopback.Conns
	size    int
	clients []client
	classes [2]class

	answered int // CONNACKs
	pings    int
	silent   bool // no client pings any more
	cut      int  // connections closed by the broker before that
	gone     int  // all that were closed by the broker
}

func newFleet(addr netip.AddrPort, size int, keepAlives ...time.Duration) (*fleet, error) {
	conns, err := loopback.New(addr)
	if err != nil {
		return nil, err
	}
	f := &fleet{conns: conns, size: size, clients: make([]client, size)}
	for k, keepAlive := range keepAlives {
		f.classes[k].keepAlive = keepAlive
	}
	return f, nil
}

// classOf returns the class of a client.
func (f *fleet) classOf(i int) *class { return &f.classes[i%len(f.classes)] }

func clientID(i int) string { return fmt.Sprintf("client-%05d", i) }

// connect connects all clients, and returns how long that took.
func (f *fleet) connect(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	for f.answered < f.size {
		for f.conns.Len() < f.size && f.conns.Len()-f.answered < dialing {
			if err := f.conns.Dial(); err != nil {
				return 0, err
			}
		}
		if err := f.turn(ctx); err != nil {
			return 0, fmt.Errorf("%d of %d connected: %w", f.answered, f.size, err)
		}
	}
	return time.Since(begin), nil
}

// run makes the clients ping, and takes what comes, until done.
func (f *fleet) run(ctx context.Context, done func() bool) error {
	for !done() {
		if err := f.turn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// turn sends the pings that are due, and takes what comes within a tick.
func (f *fleet) turn(ctx context.Context) error {
	if !f.silent {
		if err := f.pingDue(time.Now()); err != nil {
			return err
		}
	}
	_, err := f.conns.Wait(ctx, tick, f.take)
	return err
}

// lastPings makes all clients ping once more, at once.
func (f *fleet) lastPings(ctx context.Context) error {
	for i := range f.clients {
		if err := f.ping(i); err != nil {
			return err
		}
		if i%64 == 0 { // so that it is known when the answers came
			if _, err := f.conns.Wait(ctx, 0, f.take); err != nil {
				return err
			}
		}
	}
	return nil
}

// take takes what has happened to a connection.
func (f *fleet) take(i int) error {
	c := &f.clients[i]
	switch {
	case !f.conns.Open(i):
		return nil
	case c.phase == connecting:
		c.phase = awaiting
		return f.send(i, connectPacket(clientID(i), f.classOf(i).keepAlive))
	}
	answer, err := f.conns.Read(i)
	switch {
	case err != nil:
		return f.closed(i)
	case len(answer) == 0:
	case c.phase == awaiting:
		return f.admitted(i, answer)
	case f.silent:
		c.heard = time.Now()
	}
	return nil
}

// closed notes that the broker closed a connection.
func (f *fleet) closed(i int) error {
	c := &f.clients[i]
	c.closed = time.Now()
	f.conns.HangUp(i)
	f.gone++
	if !f.silent {
		f.cut++
	}
	if c.phase != greeted {
		return fmt.Errorf("%s: the broker closed the connection and did not answer CONNECT", clientID(i))
	}
	return nil
}

// admitted takes a CONNACK. The client is to ping half a keep alive later.
func (f *fleet) admitted(i int, answer []byte) error {
	if !bytes.Equal(answer, []byte{0x20, 2, 0, 0}) {
		return fmt.Errorf("%s: CONNECT was answered % x", clientID(i), answer)
	}
	f.clients[i].phase = greeted
	f.answered++
	cl := f.classOf(i)
	cl.members = append(cl.members, i)
	cl.due = append(cl.due, time.Now().Add(cl.keepAlive/2))
	return nil
}

// spread spreads the pings of all clients evenly.
func (f *fleet) spread() {
	now := time.Now()
	for k := range f.classes {
		cl := &f.classes[k]
		for j := range cl.due {
			cl.due[j] = now.Add(cl.keepAlive / 2 * time.Duration(j) / time.Duration(len(cl.due)))
		}
	}
}

// pingDue sends the pings that are due.
func (f *fleet) pingDue(now time.Time) error {
	for k := range f.classes {
		cl := &f.classes[k]
		n := 0
		for n < len(cl.due) && !cl.due[n].After(now) {
			i := cl.members[n]
			if err := f.ping(i); err != nil {
				return err
			}
			cl.members = append(cl.members, i)
			cl.due = append(cl.due, cl.due[n].Add(cl.keepAlive/2))
			n++
		}
		cl.members, cl.due = cl.members[n:], cl.due[n:]
	}
	return nil
}

func (f *fleet) ping(i int) error {
	if !f.conns.Open(i) {
		return nil
	}
	f.pings++
	return f.send(i, []byte{0xc0, 0})
}

// send writes a packet. What cannot be written belongs to a connection whose end is yet to be seen.
func (f *fleet) send(i int, p []byte) error {
	f.clients[i].sent = time.Now()
	if err := f.conns.Write(i, p); errors.Is(err, loopback.ErrFull) {
		return err
	}
	return nil
}
