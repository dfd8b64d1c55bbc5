package mqtt

import (
	"crypto/rand"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	broker "github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/access"
	"github.com/holter-iot/holter/mqtt/packet"
)

// conn is the codec of a connection.
type conn struct {
	protocol *Protocol
	wire     codec.Wire
	client   *broker.Conn  // nil until its session is open
	grant    *access.Grant // nil until its login has succeeded
	expiry   *uint32       // of the session, in seconds, that DISCONNECT announced
	version  packet.Version
	greeted  bool         // CONNECT was read
	left     bool         // DISCONNECT with reason 0 was read
	code     atomic.Int32 // why the connection ends, if that is not for the gateway to say; 0 if it is
}

var (
	_ codec.Live          = (*conn)(nil)
	_ codec.Authenticator = (*conn)(nil)
	_ codec.Long          = (*conn)(nil)
	_ codec.Reviewed      = (*Protocol)(nil)
	_ broker.Wire         = (*conn)(nil)
)

// MaxMessage implements [codec.Long].
func (c *conn) MaxMessage() int { return c.protocol.Broker.MaxPacket() }

// Next implements [codec.Codec].
func (c *conn) Next(input []byte, m *codec.Message) (n int, err error) {
	limit := c.MaxMessage()
	if !c.greeted {
		limit = min(limit, maxConnect)
	}
	h, body, n, err := packet.Split(c.version, input, limit)
	if err != nil {
		return 0, c.broken(err)
	}
	if n == 0 {
		return 0, nil
	}
	m.Text, m.Note = body, uint64(h.Type)<<4|uint64(h.Flags)
	switch {
	case (h.Type == packet.TypeConnect) == c.greeted:
		err = &packet.Error{Code: packet.ProtocolError, Text: "the first packet, and no other, is a CONNECT (MQTT 5, 3.1)"}
	case h.Type == packet.TypeConnect:
		err = c.connect(m)
	case h.Type == packet.TypeDisconnect:
		err = c.disconnect(m)
	default:
		m.Kind = codec.Beat
	}
	if err != nil {
		return 0, c.broken(err)
	}
	return n, nil
}

// connect decodes a CONNECT.
func (c *conn) connect(m *codec.Message) error {
	var p packet.Connect
	err := p.Decode(m.Text)
	c.version, c.greeted = p.Version, true
	if err != nil {
		return err
	}
	if p.AuthMethod != nil {
		return &packet.Error{Code: packet.BadAuthMethod, Text: "there is no extended authentication here (MQTT 5, 4.12)"}
	}
	m.Kind, m.ID, m.Token = codec.Hello, p.ClientID, p.Password
	if len(p.ClientID) == 0 {
		m.Guest, m.ID = true, []byte("auto-"+rand.Text())
	}
	m.Interval = time.Duration(p.KeepAlive) * time.Second
	m.Timeout = m.Interval + m.Interval/2
	if p.KeepAlive == 0 {
		m.Timeout = codec.Never
	}
	return nil
}

// disconnect decodes a DISCONNECT. Only with reason 0 it is a goodbye (MQTT 5, 3.14.4).
func (c *conn) disconnect(m *codec.Message) error {
	var p packet.Disconnect
	if err := p.Decode(c.version, m.Text); err != nil {
		return err
	}
	if p.HasSessionExpiry {
		if c.client != nil && !c.client.MayExtend(p.SessionExpiry) {
			return &packet.Error{Code: packet.ProtocolError, Text: "a session that was to end with its connection cannot outlive it (MQTT 5, 3.14.2.2.2)"}
		}
		c.expiry = &p.SessionExpiry
	}
	m.Kind = codec.Leave
	if c.left = p.Code == packet.Success; c.left {
		m.Kind = codec.Bye
	}
	return nil
}

// broken returns the error for what breaks the protocol, and keeps its code for the goodbye.
func (c *conn) broken(err error) *codec.Error {
	if p, ok := errors.AsType[*packet.Error](err); ok {
		c.code.Store(int32(p.Code))
	}
	return refusal(err)
}

// Reply implements [codec.Codec].
func (c *conn) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	h := packet.Header{Type: packet.Type(m.Note >> 4), Flags: uint8(m.Note & 15)}
	switch {
	case h.Type == packet.TypeConnect && o.Err != nil:
		return c.refuse(dst, o.Err)
	case h.Type == packet.TypeConnect:
		return c.welcome(dst, m, o)
	case o.Err != nil || c.client == nil: // the session was taken over: what comes from here counts no more
		return dst
	case h.Type == packet.TypePingreq:
		return packet.AppendPingresp(dst)
	case h.Type == packet.TypeDisconnect:
		return dst
	}
	dst, err := c.client.Handle(dst, h, m.Text, o.Now)
	if err != nil {
		c.fail(o, err)
	}
	o.Unfinished = c.client.Unfinished()
	return dst
}

// welcome opens the broker's session, and answers the CONNECT.
func (c *conn) welcome(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	var p packet.Connect
	if err := p.Decode(m.Text); err != nil {
		c.fail(o, err)
		return dst
	}
	client, ack, err := c.protocol.Broker.Connect(&p, string(m.ID), c.grant, c, o.Now)
	if err != nil {
		c.fail(o, err)
		return dst
	}
	c.client = client
	if seconds := keepAlive(o.Timeout); o.Timeout != m.Timeout && seconds > 0 {
		ack.HasServerKeepAlive, ack.ServerKeepAlive = true, seconds
	}
	return ack.Append(dst, c.version)
}

// keepAlive returns the keep alive in seconds for a timeout that the device did not ask for; 0 if there
// is none.
func keepAlive(timeout time.Duration) uint16 {
	seconds := timeout / 3 * 2 / time.Second
	if seconds > 1<<16-1 {
		return 0
	}
	return uint16(max(seconds, 1))
}

// refuse answers a CONNECT that leads nowhere.
func (c *conn) refuse(dst []byte, err *codec.Error) []byte {
	code := packet.Code(c.code.Load())
	switch {
	case err.Code == codec.Busy || err.Code == codec.Timeout: // it is not stored, or nobody has decided
		code = packet.ServerBusy
	case code == packet.Success:
		code = packetCode(err.Code)
	}
	ack := packet.Connack{Code: code, Reason: err.Text}
	return ack.Append(dst, c.version)
}

// fail ends the connection because of what the broker has found wrong with a packet.
func (c *conn) fail(o *codec.Outcome, err error) { o.Broken = c.broken(err) }

// Goodbye implements [codec.Codec]. Before the session is open, the answer to a CONNECT is all that can
// be said (MQTT 5, 3.1.4).
func (c *conn) Goodbye(dst []byte, why string, err *codec.Error) []byte {
	code := packet.Code(c.code.Load())
	if code == packet.Success {
		code = goodbyeCode(why, err)
	}
	reason := why
	if err != nil {
		reason = err.Text
	}
	switch {
	case c.client != nil:
		return packet.AppendDisconnect(dst, c.version, code, reason)
	case c.greeted && c.version != 0 && err != nil:
		return c.refuse(dst, err)
	}
	return dst
}

// Attach implements [codec.Live].
func (c *conn) Attach(w codec.Wire) { c.wire = w }

// Pump implements [codec.Live].
func (c *conn) Pump(dst []byte, room int) (out []byte, more bool) {
	if c.client == nil {
		return dst, false
	}
	return c.client.Pump(dst, room, time.Now())
}

// Continue implements [codec.Live].
func (c *conn) Continue() (more bool) { return c.client.Continue() }

// Ended implements [codec.Live].
func (c *conn) Ended(released bool) {
	if c.client != nil {
		c.client.Close(broker.Ending{Clean: c.left, Shutdown: released, SessionExpiry: c.expiry}, time.Now())
	}
}

// HasWill implements [codec.Live].
func (c *conn) HasWill() bool { return c.client != nil && !c.left && c.client.HasWill() }

// Wake implements [broker.Wire].
func (c *conn) Wake() { c.wire.Wake() }

// Close implements [broker.Wire].
func (c *conn) Close(code packet.Code) {
	c.code.Store(int32(code))
	c.wire.Disconnect(code.String())
}
