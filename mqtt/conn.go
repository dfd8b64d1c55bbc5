package mqtt

import (
	"time"

	"github.com/holter-iot/holter/mqtt/packet"
)

// Wire is the connection of a client, as the engine sees it. Its methods may be called by any
// goroutine, at any time, even after the connection has ended. They do not block, and call nothing
// of the engine.
type Wire interface {
	// Wake has [Conn.Pump] called soon, on the goroutine of the connection.
	Wake()
	// Close says goodbye with a reason, and closes the connection. [Conn.Close] is called for it as
	// for any other.
	Close(code packet.Code)
}

// Grant says what a client may do. Its methods are safe for concurrent use, do not block, and do
// not keep their argument.
type Grant interface {
	User() string
	MayPublish(topic string) bool
	MaySubscribe(filter string) bool // $share/ and all
	Valid() bool                     // false once the client has to log in again
}

// Conn is a client on a connection. One goroutine at a time calls its methods; none of them blocks
// but on short locks.
type Conn struct {
	session *session
	wire    Wire
	grant   Grant
	will    *will
	extra   *extra // nil for most

	maxPacket      uint32 // that the client takes; 0: no limit
	quota          uint16 // messages with QoS 1 and 2 that it takes without acknowledging any,
	unacknowledged uint16 // and how many it has
	receiving      uint16 // messages of its own with QoS 1 and 2 that are not acknowledged
	resent         uint16 // entries in flight that were sent on this connection
	aliases        uint16 // that it takes
	version        packet.Version
	woken          bool // Pump will be called; guarded by session.mu, as unacknowledged and resent are
	awaiting       bool // it is woken after the next commit; guarded by waitlist.mu
}

// extra is what few connections need.
type extra struct {
	incoming    []string          // topics by alias, less 1
	outgoing    map[string]uint16 // aliases by topic
	acks        []ack             // that wait for a commit, or for one before them
	remote      *remote           // nil for a client
	routing     *routing          // of the client's message that is unfinished; nil: none is
	subscribing *subscribing      // that is unfinished; nil: none is
}

func (c *Conn) more() *extra { return made(&c.extra) }

// maxAcks is how many answers to a client may wait for the store: it would have to send that much
// while the store fails.
const maxAcks = 16 << 10

// HasWill reports whether the client has a will.
func (c *Conn) HasWill() bool { return c.will != nil }

// Handle handles a packet of the client's, any but CONNECT, PINGREQ and DISCONNECT, and appends the
// answer, if there is one already. body is not kept. An error, always a *packet.Error, ends the
// connection; what was appended before is to be sent. A message that is for many, or a SUBSCRIBE
// with many filters, may be unfinished then: [Conn.Continue] is to be called soon. Handle finishes it
// first, and so does Close a message.
func (c *Conn) Handle(dst []byte, h packet.Header, body []byte, now time.Time) ([]byte, error) {
	c.finish()
	switch {
	case !c.grant.Valid():
		return dst, &packet.Error{Code: packet.NotAuthorized, Text: "the client has to log in again"}
	case c.extra != nil && len(c.extra.acks) >= maxAcks:
		return dst, &packet.Error{Code: packet.QuotaExceeded, Text: "too many answers wait until they can be given"}
	}
	switch h.Type {
	case packet.TypePublish:
		return c.publish(dst, h, body, now)
	case packet.TypePuback, packet.TypePubrec, packet.TypePubrel, packet.TypePubcomp:
		var p packet.Ack
		if err := p.Decode(c.version, h, body); err != nil {
			return dst, err
		}
		return c.acknowledged(dst, h.Type, &p)
	case packet.TypeSubscribe:
		return c.subscribe(dst, body)
	case packet.TypeUnsubscribe:
		return c.unsubscribe(dst, body)
	default:
		return dst, protocolError("a packet of type " + h.Type.String() + " is not for a server, or not now")
	}
}

func protocolError(text string) *packet.Error {
	return &packet.Error{Code: packet.ProtocolError, Text: text}
}

// lost is the error of a connection that has lost its session.
func lost() *packet.Error {
	return &packet.Error{Code: packet.SessionTakenOver, Text: "another connection has taken the session"}
}

// Ending says how a connection ended.
type Ending struct {
	Clean         bool    // with DISCONNECT and reason 0: there is no will
	Shutdown      bool    // by the server, which ends: there is no will
	SessionExpiry *uint32 // that DISCONNECT announced, in seconds; nil: none. Ignored if CONNECT asked for 0.
}

// Close ends the use of the connection. It publishes the client's will if it is due, and ends the
// session unless that is to be kept. Only its first call does anything.
func (c *Conn) Close(e Ending, now time.Time) {
	if c.extra != nil {
		c.extra.subscribing = nil // nobody is to be answered
	}
	c.finish()
	s, w := c.session, c.will
	if e.Clean || e.Shutdown {
		w = nil
	}
	s.broker.journal.hold()
	defer s.broker.journal.unhold()
	s.mu.Lock()
	if s.conn != c {
		s.mu.Unlock()
		return
	}
	s.conn = nil
	s.broker.counts.connected.Add(-1)
	s.broker.holdWill(c.will, -1)
	if e.SessionExpiry != nil && s.expiry > 0 { // MQTT 5, 3.14.2.2.2
		s.expiry = min(*e.SessionExpiry, s.broker.config.expiry())
	}
	stays := s.staysLocked(w)
	if stays {
		w = s.leaveLocked(w, now, now)
		s.storeLocked()
		s.storeWillLocked()
	} else {
		s.endLocked()
	}
	s.mu.Unlock()
	if !stays {
		s.broker.clear(s, now)
	}
	s.broker.publishWill(s, w, now)
}

// staysLocked reports whether the session is kept when its client leaves. It drops messages for
// which there is no room then.
func (s *session) staysLocked(w *will) bool {
	if s.expiry == 0 {
		return false
	}
	b := s.broker
	if b.mayLeave(s.sizeAwayLocked(w)) && s.shrinkLocked(b.share(true)) {
		return true
	}
	b.counts.sessionsRefused.Add(1)
	return false
}
