package mqtt

import (
	"time"
	"unsafe"

	"github.com/holter-iot/holter/mqtt/packet"
)

// publish handles PUBLISH.
func (c *Conn) publish(dst []byte, h packet.Header, body []byte, now time.Time) ([]byte, error) {
	var in packet.Publish
	if err := in.Decode(c.version, h, body); err != nil {
		return dst, err
	}
	if err := c.resolve(&in); err != nil {
		return dst, err
	}
	b := c.session.broker
	b.counts.published.Add(1)
	code := b.mayPublish(c, in.Topic)
	p := publication{
		from: c.session, topic: in.Topic, payload: in.Payload, properties: in.Properties,
		expires: expiresAfter(now, in.HasExpiry, in.Expiry), qos: in.QoS, retain: in.Retain,
	}
	switch {
	case in.QoS > 0:
		return c.publishOnce(dst, &in, &p, code, now)
	case code == packet.Success:
		c.pass(&p, now)
	}
	return dst, nil
}

// mayPublish returns Success, or why a message is not passed on.
func (b *Broker) mayPublish(c *Conn, topic []byte) packet.Code {
	t := view(topic)
	switch {
	case !bounded(t):
		b.counts.denied.Add(1)
		return packet.InvalidTopic
	case b.reserved(t) || !c.grant.MayPublish(t):
		b.counts.denied.Add(1)
		return packet.NotAuthorized
	}
	return packet.Success
}

// resolve gives a message the topic that its alias stands for (MQTT 5, 3.3.2.3.4).
func (c *Conn) resolve(in *packet.Publish) error {
	switch {
	case in.Alias == 0:
		return nil
	case int(in.Alias) > c.session.broker.config.TopicAliases:
		return &packet.Error{Code: packet.InvalidAlias, Text: "a topic alias is above the Topic Alias Maximum (MQTT 5, 3.3.2.3.4)"}
	}
	x, i := c.more(), int(in.Alias)-1
	if len(in.Topic) > 0 {
		for len(x.incoming) <= i {
			x.incoming = append(x.incoming, "")
		}
		if x.incoming[i] != view(in.Topic) && len(in.Topic) <= maxTopic {
			x.incoming[i] = string(in.Topic)
		}
		return nil
	}
	if i >= len(x.incoming) || x.incoming[i] == "" {
		return protocolError("a topic alias is not known (MQTT 5, 3.3.4)")
	}
	in.Topic = unsafe.Slice(unsafe.StringData(x.incoming[i]), len(x.incoming[i])) // which nobody writes to
	return nil
}

// publishOnce handles a message with QoS 1 or 2.
func (c *Conn) publishOnce(dst []byte, in *packet.Publish, p *publication, code packet.Code, now time.Time) ([]byte, error) {
	b := c.session.broker
	if c.receiving++; c.version >= packet.V5 && int(c.receiving) > b.config.ReceiveMaximum {
		return dst, &packet.Error{Code: packet.ReceiveMaximumExceeded, Text: "more messages than the Receive Maximum are not acknowledged (MQTT 5, 3.3.4)"}
	}
	if code == packet.Success && (b.journal.full() || b.fullAbove()) {
		b.counts.dropped.Add(1)
		code = packet.QuotaExceeded
	}
	b.journal.hold()
	defer b.journal.unhold()
	known, commit, err := c.receive(in, &code)
	if err != nil {
		return dst, err
	}
	switch {
	case known:
		return c.answer(dst, answerTo(in.QoS), in.ID, packet.Success, commit), nil
	case code == packet.QuotaExceeded && c.version < packet.V5:
		return dst, nil // it cannot be told otherwise, and will send the message again
	case code != packet.Success:
		return c.answer(dst, answerTo(in.QoS), in.ID, code, commit), nil
	}
	r := b.route(p, now)
	switch {
	case !r.found:
		code = packet.NoMatchingSubscribers
	case r.full && !r.delivered:
		code = packet.QuotaExceeded
	}
	if code >= packet.UnspecifiedError && in.QoS == 2 && c.version >= packet.V5 {
		commit = c.session.forget(c, in.ID)
	}
	return c.answer(dst, answerTo(in.QoS), in.ID, code, max(commit, r.commit)), nil
}

// answerTo returns the type of the answer to a message.
func answerTo(qos uint8) packet.Type {
	if qos == 2 {
		return packet.TypePubrec
	}
	return packet.TypePuback
}

// receive remembers the id of a message with QoS 2 until it is released. known says that it was
// remembered already; code becomes QuotaExceeded if there is no room for one more. It returns what
// must be committed before the client may be told.
func (c *Conn) receive(in *packet.Publish, code *packet.Code) (known bool, commit uint64, err error) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return false, 0, lost()
	}
	if in.QoS < 2 {
		return false, 0, nil
	}
	if _, known = s.received[in.ID]; known {
		return true, s.commitOfLocked(), nil
	}
	if !s.broker.mayHold(receivedSize * (len(s.received) + 1)) {
		s.broker.counts.dropped.Add(1)
		*code = packet.QuotaExceeded
	}
	if *code == packet.QuotaExceeded || *code >= packet.UnspecifiedError && c.version >= packet.V5 {
		return false, 0, nil
	}
	if s.received == nil {
		s.received = make(map[uint16]struct{})
	}
	s.received[in.ID] = struct{}{}
	s.countReceivedLocked(len(s.received) - 1)
	return false, s.storeReceivedLocked(in.ID), nil
}
