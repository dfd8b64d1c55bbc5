package broker

import (
	"context"
	"errors"
	"strings"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/liveness"
)

// connect takes a CONNECT, or returns why not and the code to answer with.
func (c *conn) connect(cl *mqtt.Client, pk packets.Packet) (why Reason, code packets.Code) {
	b := c.broker
	c.client = cl
	c.device = pk.Connect.ClientIdentifier != "" // else cl.ID is one that was made up for it
	if c.device && liveness.ValidateID(cl.ID) != nil {
		return ClientID, packets.ErrClientIdentifierNotValid
	}
	if w := pk.Connect; w.WillFlag {
		switch {
		case !validTopic(w.WillTopic):
			return ACL, atLeast5(cl, packets.ErrTopicNameInvalid, packets.ErrBadUsernameOrPassword) // which 3.1.1 is told as not authorized
		case b.reserved(w.WillTopic):
			return ACL, atLeast5(cl, packets.ErrNotAuthorized, packets.ErrBadUsernameOrPassword)
		}
		c.will = true
	}
	ctx, cancel := b.patience(b.config.ConnectTimeout)
	defer cancel()
	switch err := b.config.Auth.Login(ctx, cl.ID, string(pk.Connect.Username), pk.Connect.Password, c.RemoteAddr()); {
	case errors.Is(err, ErrLogins) || errors.Is(err, context.DeadlineExceeded):
		return Busy, busy(cl)
	case err != nil:
		return Denied, atLeast5(cl, packets.ErrBadUsernameOrPassword, packets.ErrMalformedUsername) // 3.1.1: bad user name or password
	}
	soon, cancel := b.patience(b.config.commitTimeout)
	defer cancel()
	c.release = b.turns.take(cl.ID)
	return c.open(soon, cl, pk.Connect.Keepalive)
}

// open opens the device's session, and waits until that is committed, if anything is to be. The keep alive is in seconds.
func (c *conn) open(ctx context.Context, cl *mqtt.Client, keepAlive uint16) (why Reason, code packets.Code) {
	interval := time.Duration(keepAlive) * time.Second
	timeout := interval + interval/2
	if !c.device {
		c.idle = timeout
	} else {
		announced := liveness.Policy{Interval: interval, Timeout: timeout}
		if keepAlive == 0 {
			announced = liveness.Policy{Timeout: liveness.Never}
		}
		hello := liveness.Hello{Announced: announced, Unverified: !proves(c.broker.config.Auth, string(cl.Properties.Username))}
		_, err := c.broker.source.Open(&c.session, cl.ID, hello, c, c.broker.now())
		switch {
		case errors.Is(err, liveness.ErrFull):
			return Full, atLeast5(cl, packets.ErrQuotaExceeded, packets.ErrServerUnavailable)
		case err != nil:
			return Busy, busy(cl)
		}
		if c.session.Pending() {
			c.land() // the heartbeat is in; the clock goes on
			if c.broker.registry.Commit(ctx) != nil {
				c.session.Close(c.broker.now(), liveness.Closed)
				return Busy, packets.ErrServerUnavailable
			}
		}
	}
	_ = c.Conn.SetReadDeadline(time.Time{})
	c.admitted = true
	c.greeted.Store(true)
	return "", packets.CodeSuccess
}

// atLeast5 returns one of two codes by the client's version of the protocol. The older one is translated when it is sent.
func atLeast5(cl *mqtt.Client, code, older packets.Code) packets.Code {
	if cl.Properties.ProtocolVersion >= 5 {
		return code
	}
	return older
}

func busy(cl *mqtt.Client) packets.Code {
	return atLeast5(cl, packets.ErrServerBusy, packets.ErrServerUnavailable)
}

// packet is called for each packet of a client that was let in, and returns it as it is to be handled.
func (c *conn) packet(pk packets.Packet) packets.Packet {
	c.broker.counts.packets.Add(1)
	if c.device {
		c.session.Beat(c.broker.now())
	}
	if pk.FixedHeader.Type == packets.Disconnect {
		c.bye = pk.ReasonCode == packets.CodeDisconnect.Code
		if !c.bye { // the will is dropped only if the reason is 0 (MQTT 5, 3.14.4)
			pk.ReasonCode = packets.CodeDisconnectWillMessage.Code
		}
	}
	return pk
}

// finish ends what the connection held. The device's silence, if it is one, begins here.
func (c *conn) finish(err error) {
	b := c.broker
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.conns, c)
	}()
	defer c.land()
	defer c.over()
	c.countEnd(err)
	if !c.greeted.Load() {
		if c.release != nil {
			c.release()
		}
		return
	}
	if !b.closing.Load() {
		c.closeSession(err)
	}
	c.takeTurn() // unless it has it: it panicked
	defer c.release()
	c.forget()
}

// over closes the connection and lets nothing be sent on it any more.
func (c *conn) over() {
	c.mu.Lock()
	if c.failed == nil {
		c.failed = errOver
	}
	c.mu.Unlock()
	_ = c.Close()
}

// errOver is what a write to a connection returns that is finished.
var errOver = errors.New("broker: the connection is over")

func (c *conn) closeSession(err error) {
	if !c.device {
		return
	}
	now := c.broker.now()
	switch {
	case c.bye && err == nil:
		c.session.Bye(now)
	case c.will:
		c.session.Close(now, liveness.Will)
	case brokeProtocol(err):
		c.session.Close(now, liveness.Protocol)
	default:
		c.session.Close(now, liveness.Closed)
	}
}

// countEnd counts why the client was cut off, if it was for what it did.
func (c *conn) countEnd(err error) {
	switch {
	case c.refused || err == nil:
	case errors.Is(err, packets.ErrPacketTooLarge):
		c.broker.counts.reject(PacketTooLarge)
	case errors.Is(err, packets.ErrServerBusy): // the protocol's implementation counts clients, too
		c.broker.counts.reject(Full)
	case errors.Is(err, packets.ErrClientIdentifierNotValid):
		c.broker.counts.reject(ClientID)
	case brokeProtocol(err):
		c.broker.counts.reject(Protocol)
	}
}

// brokeProtocol reports whether a connection ended because of what the client sent.
func brokeProtocol(err error) bool {
	if code, ok := errors.AsType[packets.Code](err); ok {
		return code.Code >= packets.ErrUnspecifiedError.Code
	}
	return err != nil && strings.HasPrefix(err.Error(), "invalid packet type")
}

// forget removes a client from the books that is in them although it is gone: its CONNACK could not be sent, or something panicked. It is
// the turn of its id.
func (c *conn) forget() {
	cl := c.client
	held, ok := c.broker.server.Clients.Get(cl.ID)
	version, props := cl.Properties.ProtocolVersion, cl.Properties.Props
	if !ok || held != cl || version >= 5 && props.SessionExpiryInterval != 0 || version < 5 && !cl.Properties.Clean {
		return
	}
	cl.Stop(nil)
	cl.ClearInflights()
	c.broker.server.UnsubscribeClient(cl)
	c.broker.server.Clients.Delete(cl.ID)
}

// validTopic reports whether a message may have a topic.
func validTopic(topic string) bool {
	return topic != "" && bounded(topic) && !strings.ContainsAny(topic, "+#\x00")
}

// bounded reports whether a topic or filter is not longer and deeper than allowed.
func bounded(topic string) bool {
	return len(topic) <= maxTopic && strings.Count(topic, "/") < maxLevels
}

// reserved reports whether only the program publishes to a topic.
func (b *Broker) reserved(topic string) bool {
	prefix := b.config.Reserved
	return strings.HasPrefix(topic, "$SYS") || prefix != "" && (strings.HasPrefix(topic, prefix) || topic == strings.TrimSuffix(prefix, "/"))
}
