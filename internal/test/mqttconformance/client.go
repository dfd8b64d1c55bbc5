package mqttconformance

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// How long a test waits for a packet that must come, and one that the broker is expected to fail.
const (
	patience    = 10 * time.Second
	lowPatience = time.Second
)

// client is a connection to the broker. It belongs to the goroutine of its test, and all of its methods end the test
// if the broker does what it must not.
type client struct {
	t       *test
	conn    net.Conn
	in      *bufio.Reader
	version byte
	hello   hello
	limits  properties // of the CONNECT
	ack     packet     // CONNACK

	manual   bool            // the test acknowledges messages itself
	inflight map[uint16]bool // the broker's messages that are not acknowledged
	aliases  map[int]string  // the broker's
	inbox    []packet        // messages that came while the test waited for something else
	last     uint16          // the last packet identifier
}

// dial returns a connection on which nothing was sent.
func (t *test) dial(version byte) *client {
	conn, err := new(net.Dialer).DialContext(t.ctx, "tcp", t.addr)
	if err != nil {
		t.fatalf("connect to the broker: %v", err)
	}
	t.conns = append(t.conns, conn)
	return &client{
		t: t, conn: conn, in: bufio.NewReader(conn), version: version, hello: hello{version: version},
		inflight: map[uint16]bool{}, aliases: map[int]string{},
	}
}

// connect returns a client that the broker has accepted.
func (t *test) connect(h hello) *client {
	c := t.offer(h)
	c.ack = c.want(connack)
	if c.ack.code != 0 {
		t.fatalf("%v for %q", c.ack, h.id)
	}
	return c
}

// offer returns a client that has sent CONNECT.
func (t *test) offer(h hello) *client {
	h.version, h.keepAlive = cmp.Or(h.version, 5), cmp.Or(h.keepAlive, 30)
	c := t.dial(h.version)
	c.hello, c.limits = h, h.limits()
	c.send(h.encode())
	return c
}

// again returns the client's next connection, after a cut or a DISCONNECT. It resumes the session.
func (c *client) again() *client {
	h := c.hello
	h.resume = true
	return c.t.connect(h)
}

func (c *client) send(b []byte) {
	c.conn.SetWriteDeadline(time.Now().Add(c.t.patience))
	if _, err := c.conn.Write(b); err != nil {
		c.t.fatalf("write: %v", err)
	}
}

// cut ends the connection without a DISCONNECT.
func (c *client) cut() { c.conn.Close() }

// disconnect sends DISCONNECT and waits for the broker to close the connection.
func (c *client) disconnect() { c.bye(frame(disconnect << 4)) }

func (c *client) bye(packet []byte) {
	c.send(packet)
	for {
		p, err := c.read(c.t.patience)
		if err != nil {
			c.closed(err)
			return
		}
		if p.kind != publish && p.kind != pubrel {
			c.t.fatalf("%v after DISCONNECT", p)
		}
	}
}

// closed wants an error to be the end of the connection.
func (c *client) closed(err error) {
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		c.t.fatalf("%v, want the end of the connection", err)
	}
}

// read reads a packet and checks all that can be said of it. The error is that of the connection.
func (c *client) read(wait time.Duration) (packet, error) {
	c.conn.SetReadDeadline(time.Now().Add(wait))
	first, err := c.in.ReadByte()
	if err != nil {
		return packet{}, err
	}
	c.conn.SetReadDeadline(time.Now().Add(c.t.patience))
	length, header := c.length()
	body := make([]byte, length)
	if _, err := io.ReadFull(c.in, body); err != nil {
		c.t.fatalf("read the rest of a %s: %v", kindName(first>>4), err)
	}
	p, err := decode(c.version, first, body)
	if err != nil {
		c.t.fatalf("the broker sent: %v", err)
	}
	p.size = 1 + header + length
	c.check(&p)
	return p, nil
}

// length reads the remaining length, and returns how many bytes it has itself.
func (c *client) length() (n, size int) {
	for size < 4 {
		b, err := c.in.ReadByte()
		if err != nil {
			c.t.fatalf("read a remaining length: %v", err)
		}
		n |= int(b&0x7f) << (7 * size)
		if size++; b < 0x80 {
			if b == 0 && size > 1 {
				break
			}
			return n, size
		}
	}
	c.t.fatalf("the broker sent a remaining length that is too long")
	return 0, 0
}

// check holds a packet against what the client's CONNECT allows, and replaces a topic alias.
func (c *client) check(p *packet) {
	if limit, ok := c.limits.number(propMaximumPacketSize); ok && p.size > limit {
		c.t.fatalf("%v has %d bytes, want %d at the most", p, p.size, limit)
	}
	if _, ok := c.limits.text(propAuthMethod); p.kind == auth && !ok {
		c.t.fatalf("%v, but the client has no authentication method", p)
	}
	c.alias(p)
	if p.kind != publish || p.qos == 0 {
		return
	}
	if c.inflight[p.id] {
		c.t.fatalf("%v, but that id was not acknowledged yet", p)
	}
	c.inflight[p.id] = true
	if limit, ok := c.limits.number(propReceiveMaximum); ok && len(c.inflight) > limit {
		c.t.fatalf("%d messages are not acknowledged, want %d at the most", len(c.inflight), limit)
	}
}

// alias sets the topic of a message with a topic alias.
func (c *client) alias(p *packet) {
	alias, ok := p.props.number(propTopicAlias)
	if !ok {
		return
	}
	if limit, _ := c.limits.number(propTopicAliasMaximum); alias > limit {
		c.t.fatalf("%v, want an alias of %d at the most", p, limit)
	}
	if p.topic != "" {
		c.aliases[alias] = p.topic
		return
	}
	if p.topic, p.aliased = c.aliases[alias], true; p.topic == "" {
		c.t.fatalf("%v, but that alias stands for no topic", p)
	}
}
