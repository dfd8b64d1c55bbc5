package mqtt

import (
	"github.com/holter-iot/holter/mqtt/packet"
)

// ack is an answer to a client that waits until what it promises is committed, or until those
// before it are sent.
type ack struct {
	commit uint64
	packet []byte
	frees  bool // a message of the client's is done with
}

// answer appends an answer to a message of the client's, or has it wait.
func (c *Conn) answer(dst []byte, t packet.Type, id uint16, code packet.Code, commit uint64) []byte {
	frees := t == packet.TypePuback || t == packet.TypePubcomp || t == packet.TypePubrec && code >= packet.UnspecifiedError
	if c.waits(commit) {
		c.more().acks = append(c.extra.acks, ack{commit, packet.AppendAck(nil, c.version, t, id, code), frees})
		return dst
	}
	c.free(frees)
	return packet.AppendAck(dst, c.version, t, id, code)
}

// free counts a message of the client's that is done with.
func (c *Conn) free(frees bool) {
	if frees && c.receiving > 0 {
		c.receiving--
	}
}

// waits reports whether an answer has to wait.
func (c *Conn) waits(commit uint64) bool {
	return c.extra != nil && len(c.extra.acks) > 0 || c.session.broker.awaits(c, commit)
}

// acknowledged handles the packets by which messages with QoS 1 and 2 are acknowledged, in both
// directions.
func (c *Conn) acknowledged(dst []byte, t packet.Type, p *packet.Ack) ([]byte, error) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return dst, lost()
	}
	if t == packet.TypePubrel {
		return c.releasedLocked(dst, p.ID), nil
	}
	i := -1
	if s.queue != nil {
		i = s.queue.find(p.ID)
	}
	if t == packet.TypePubrec {
		return c.receivedLocked(dst, p, i), nil
	}
	if i < 0 {
		return dst, nil // it was acknowledged before, on a connection that broke
	}
	if e := &s.queue.inflight[i]; (t == packet.TypePuback) != (e.qos == 1) || t == packet.TypePubcomp && e.state != released {
		return dst, protocolError("a " + t.String() + " does not belong to the message with its packet identifier (MQTT 5, 4.3)")
	}
	s.unflyLocked(i)
	s.wakeIfLocked()
	return dst, nil
}

// wakeIfLocked has messages sent that may have waited for an acknowledgement.
func (s *session) wakeIfLocked() {
	if s.pending != nil || s.queue != nil && (s.queue.waiting() > 0 || int(s.conn.resent) < len(s.queue.inflight)) {
		s.wakeLocked()
	}
}

// receivedLocked handles PUBREC for the entry in flight at i; -1 if there is none.
func (c *Conn) receivedLocked(dst []byte, p *packet.Ack, i int) []byte {
	s := c.session
	if i < 0 || s.queue.inflight[i].qos != 2 {
		if p.Code >= packet.UnspecifiedError {
			return dst
		}
		return c.answer(dst, packet.TypePubrel, p.ID, packet.PacketIDNotFound, 0)
	}
	if p.Code >= packet.UnspecifiedError {
		s.unflyLocked(i)
		s.wakeIfLocked()
		return dst
	}
	e := &s.queue.inflight[i]
	var commit uint64
	if e.state != released {
		commit = s.releaseEntryLocked(e)
	} else {
		commit = s.commitOfLocked()
	}
	return c.answer(dst, packet.TypePubrel, p.ID, packet.Success, commit)
}

// releaseEntryLocked lets go of a message that the client has: only its id is kept.
func (s *session) releaseEntryLocked(e *entry) (commit uint64) {
	m := e.message
	s.queue.bytes -= m.size()
	s.broker.releaseMessage(e)
	e.state, e.message = released, nil
	return s.storeReleasedLocked(e, m)
}

// releasedLocked handles PUBREL.
func (c *Conn) releasedLocked(dst []byte, id uint16) []byte {
	s := c.session
	if _, ok := s.received[id]; !ok {
		return c.answer(dst, packet.TypePubcomp, id, packet.PacketIDNotFound, s.commitOfLocked())
	}
	return c.answer(dst, packet.TypePubcomp, id, packet.Success, s.forgetLocked(id))
}

// forget forgets the id of a message with QoS 2 that was refused.
func (s *session) forget(c *Conn, id uint16) (commit uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return 0
	}
	return s.forgetLocked(id)
}

func (s *session) forgetLocked(id uint16) (commit uint64) {
	before := len(s.received)
	delete(s.received, id)
	s.countReceivedLocked(before)
	if len(s.received) == 0 {
		s.received = nil
	}
	return s.unstoreReceivedLocked(id)
}
