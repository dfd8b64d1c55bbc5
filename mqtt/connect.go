package mqtt

import (
	"strings"
	"time"

	"github.com/holter-iot/holter/mqtt/packet"
)

// Connect opens or resumes the session of a client that was let in. The slices of c are not kept.
// id is the client identifier, an assigned one if c has none, and grant says what the client may
// do.
//
// A connection that has the session loses it: its Wire is closed with SessionTakenOver, and its
// will published unless that is delayed and the session resumed (MQTT 5, 3.1.2.5).
//
// The error is a *packet.Error, and the CONNACK tells the client: NotAuthorized if another user's
// client is connected with the identifier or the will may not be published, InvalidTopic if the
// will's topic is too long, QuotaExceeded if there is no room for the will, InvalidClientID if a
// client without an identifier wants a session to be kept that it cannot ask for (MQTT 3.1.1,
// 3.1.3.1). The session of another user's client that is away ends.
func (b *Broker) Connect(c *packet.Connect, id string, grant Grant, w Wire, now time.Time) (*Conn, packet.Connack, error) {
	if err := b.check(c, grant); err != nil {
		return nil, packet.Connack{Code: err.Code}, err
	}
	conn := &Conn{
		wire: w, grant: grant, version: c.Version, quota: uint16(b.config.MaxInflight),
	}
	if c.Version >= packet.V5 {
		conn.quota = min(conn.quota, c.ReceiveMaximum)
		conn.maxPacket, conn.aliases = c.MaximumPacketSize, min(c.TopicAliasMaximum, maxAliases)
	}
	if c.HasWill {
		conn.will = newWill(&c.Will, grant)
	}
	present, ok := b.open(conn, c.Clean, id, b.expiryOf(c), now)
	if !ok {
		err := otherUser()
		return nil, packet.Connack{Code: err.Code}, err
	}
	b.counts.connected.Add(1)
	b.holdWill(conn.will, 1)
	return conn, conn.connack(c, id, present), nil
}

// check refuses what cannot be.
func (b *Broker) check(c *packet.Connect, grant Grant) *packet.Error {
	if len(c.ClientID) == 0 && c.Version < packet.V5 && !c.Clean {
		return &packet.Error{Code: packet.InvalidClientID, Text: "a client without an identifier needs a clean session (MQTT 3.1.1, 3.1.3.1)"}
	}
	if !c.HasWill {
		return nil
	}
	topic := view(c.Will.Topic)
	if topic == "" || !bounded(topic) {
		return &packet.Error{Code: packet.InvalidTopic, Text: "the will's topic is empty, too long or too deep"}
	}
	if b.reserved(topic) || !grant.MayPublish(topic) {
		return &packet.Error{Code: packet.NotAuthorized, Text: "the client may not publish its will"}
	}
	if !b.mayHold(sizeOfWill(c.Will.Topic, c.Will.Payload, c.Will.Properties)) {
		return &packet.Error{Code: packet.QuotaExceeded, Text: "there is no room for the will"}
	}
	return nil
}

// expiryOf returns for how many seconds the session of a client is kept.
func (b *Broker) expiryOf(c *packet.Connect) uint32 {
	switch {
	case c.Version >= packet.V5:
		return min(c.SessionExpiry, b.config.expiry())
	case c.Clean:
		return 0
	}
	return b.config.expiry()
}

func (c *Conn) connack(p *packet.Connect, id string, present bool) packet.Connack {
	ack := packet.Connack{SessionPresent: present}
	if p.Version < packet.V5 {
		return ack
	}
	ack.ReceiveMaximum = uint16(c.session.broker.config.ReceiveMaximum)
	ack.MaximumPacketSize = uint32(c.session.broker.config.MaxPacket)
	ack.TopicAliasMaximum = uint16(c.session.broker.config.TopicAliases)
	c.session.mu.Lock()
	expiry := c.session.expiry
	c.session.mu.Unlock()
	if expiry != p.SessionExpiry {
		ack.HasSessionExpiry, ack.SessionExpiry = true, expiry
	}
	if len(p.ClientID) == 0 {
		ack.AssignedClientID = id
	}
	return ack
}

// open gives a connection its session. present says that it was resumed; ok is false if it belongs
// to another user.
func (b *Broker) open(c *Conn, clean bool, id string, expiry uint32, now time.Time) (present, ok bool) {
	b.journal.hold()
	defer b.journal.unhold()
	sh := b.sessions.shard(id)
	sh.mu.Lock()
	old := sh.byID[id]
	if old == nil {
		b.beginLocked(sh, c, id, expiry)
		sh.mu.Unlock()
		return false, true
	}
	old.mu.Lock()
	if !old.yieldsToLocked(c.grant.User()) {
		old.mu.Unlock()
		sh.mu.Unlock()
		return false, false
	}
	before := old.conn
	var due *will
	var moved []entry
	if present = !clean && old.resumableLocked(c.grant.User()); present {
		moved = old.resumeLocked(c, expiry)
	} else {
		due = old.endLocked()
		b.beginLocked(sh, c, id, expiry)
	}
	old.mu.Unlock()
	sh.mu.Unlock()
	if before != nil {
		b.counts.connected.Add(-1)
		b.counts.takenOver.Add(1)
		b.holdWill(before.will, -1)
		if before.will != nil && (!present || before.will.delay == 0) {
			due = before.will
		}
		before.wire.Close(packet.SessionTakenOver)
	}
	b.publishWill(old, due, now)
	for i := range moved {
		b.moveOn(&moved[i], now)
	}
	if !present {
		b.clear(old, now)
	}
	return present, true
}

// resumableLocked reports whether a client may resume the session. One that is not to be kept ends
// with its connection, which a new one ends.
func (s *session) resumableLocked(user string) bool {
	return !s.gone && s.expiry > 0 && s.user == user
}

// beginLocked begins a session. The caller holds the lock of its shard. If the session could not be
// kept now, a client of MQTT 5 is told that it is kept for a second: with 0, DISCONNECT could not
// announce another expiry.
func (b *Broker) beginLocked(sh *sessionShard, c *Conn, id string, expiry uint32) {
	if c.version >= packet.V5 && !b.mayLeave(sessionOverhead+len(id)+c.will.size()) {
		expiry = min(expiry, 1)
	}
	s := &session{broker: b, id: strings.Clone(id), user: c.grant.User(), number: b.numbers.Add(1), conn: c, expiry: expiry, version: c.version}
	c.session = s
	sh.byID[s.id] = s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginStoredLocked()
}

// resumeLocked gives a session to a new connection. A delayed will is cancelled. What the client may not
// read any more is dropped; it returns the messages that [Broker.moveOn] has to look at.
func (s *session) resumeLocked(c *Conn, expiry uint32) (dropped []entry) {
	s.returnLocked()
	s.conn, c.session = c, s
	s.version = c.version
	s.setExpiryLocked(expiry)
	for _, sub := range s.filters.all() {
		if !c.grant.MaySubscribe(sub.filter) {
			s.unsubscribeLocked(sub)
		}
	}
	dropped = s.dropForbiddenLocked(c.grant)
	if q := s.queue; q != nil {
		for i := range q.inflight {
			q.inflight[i].counted = false
		}
	}
	if s.queue != nil || s.pending != nil {
		s.wakeLocked()
	}
	return dropped
}
