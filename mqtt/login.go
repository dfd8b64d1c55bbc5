package mqtt

import "github.com/holter-iot/holter/mqtt/packet"

// MaxPacket returns the size of the largest packet that clients may send, in bytes.
func (b *Broker) MaxPacket() int { return b.config.MaxPacket }

// Check returns why [Broker.Connect] would refuse a client, with the same errors, and changes nothing.
// Call it before anything is done on behalf of the client.
func (b *Broker) Check(c *packet.Connect, id string, grant Grant) error {
	if err := b.check(c, grant); err != nil {
		return err
	}
	sh := b.sessions.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := sh.byID[id]
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.yieldsToLocked(grant.User()) {
		return otherUser()
	}
	return nil
}

// yieldsToLocked reports whether a user may open a session in place of this one: while a client is
// connected, no other user may.
func (s *session) yieldsToLocked(user string) bool {
	return s.gone || s.conn == nil || s.user == user
}

func otherUser() *packet.Error {
	return &packet.Error{Code: packet.NotAuthorized, Text: "a client of another user is connected with this identifier"}
}

// MayExtend reports whether DISCONNECT may announce a session expiry in seconds (MQTT 5, 3.14.2.2.2).
func (c *Conn) MayExtend(seconds uint32) bool {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return seconds == 0 || c.session.expiry > 0
}
