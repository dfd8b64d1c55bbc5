package mqtt

import (
	"strings"

	"github.com/holter-iot/holter/mqtt/packet"
)

// maxFilters is how many subscriptions are made at a time: each may cost some 20 µs.
const maxFilters = 32

// subscribing is a SUBSCRIBE that is under way.
type subscribing struct {
	packet packet.Subscribe // with the filters that are left
	codes  []packet.Code
	commit uint64
}

// subscribe handles SUBSCRIBE. If it has many filters, [Conn.Continue] goes on with the others.
func (c *Conn) subscribe(dst, body []byte) ([]byte, error) {
	var buf [8]packet.Code
	p := subscribing{codes: buf[:0]}
	if err := p.packet.Decode(c.version, body); err != nil {
		return dst, err
	}
	done, err := c.subscribeSome(&p)
	switch {
	case err != nil:
		return dst, err
	case !done:
		kept := p
		kept.packet.Keep()
		c.more().subscribing = &kept
		return dst, nil
	}
	suback := packet.AppendSuback(nil, c.version, p.packet.ID, p.codes)
	if c.waits(p.commit) {
		c.more().acks = append(c.extra.acks, ack{commit: p.commit, packet: suback})
		return dst, nil
	}
	return append(dst, suback...), nil
}

// subscribeSome makes some of the subscriptions, and reports whether none is left.
func (c *Conn) subscribeSome(p *subscribing) (done bool, err error) {
	for range maxFilters {
		f, ok := p.packet.Next()
		if !ok {
			return true, nil
		}
		code, number, err := c.subscribeTo(f, p.packet.Identifier)
		if err != nil {
			return true, err
		}
		p.codes, p.commit = append(p.codes, code), max(p.commit, number)
	}
	return false, nil
}

// goOnSubscribing makes some more of the subscriptions of a SUBSCRIBE that is under way, and reports
// whether some are left. The answer follows the last ones.
func (c *Conn) goOnSubscribing() (more bool) {
	p := c.extra.subscribing
	done, err := c.subscribeSome(p)
	if !done {
		return true
	}
	c.extra.subscribing = nil
	if err != nil { // the session was taken over
		return false
	}
	c.extra.acks = append(c.extra.acks, ack{commit: p.commit, packet: packet.AppendSuback(nil, c.version, p.packet.ID, p.codes)})
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	if c.session.conn == c {
		c.session.wakeLocked()
	}
	return false
}

// subscribeTo makes one subscription. It returns the code of the answer, and what must be committed
// before.
func (c *Conn) subscribeTo(f packet.Filter, identifier uint32) (code packet.Code, commit uint64, err error) {
	filter, s := view(f.Topic), c.session
	b := s.broker
	switch {
	case !packet.ValidFilter(f.Topic) || !bounded(filter):
		b.counts.subscriptionsRefused.Add(1)
		return packet.InvalidFilter, 0, nil
	case !c.grant.MaySubscribe(filter):
		b.counts.subscriptionsRefused.Add(1)
		return packet.NotAuthorized, 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return 0, 0, lost()
	}
	old := s.filters.get(filter)
	sub := &subscription{
		session: s, qos: f.QoS, noLocal: f.NoLocal, asPublished: f.RetainAsPublished, identifier: identifier,
	}
	if old != nil {
		sub.filter = old.filter
	} else if sub.filter = strings.Clone(filter); s.filters.len() >= b.config.MaxSubscriptions || !b.mayHold(s.sizeWithLocked(sub)) {
		b.counts.subscriptionsRefused.Add(1)
		return packet.QuotaExceeded, 0, nil
	}
	s.addLocked(sub, old)
	if shared, _ := splitShare(filter); shared == "" && (f.RetainHandling == 0 || f.RetainHandling == 1 && old == nil) {
		s.wantRetainedLocked(sub)
	}
	return packet.Code(f.QoS), s.storeSubscriptionLocked(sub, old), nil
}

// addLocked adds a subscription, in place of old if that is not nil.
func (s *session) addLocked(sub, old *subscription) {
	if sub.identifier != 0 {
		sub.detail = &detail{identifiers: []uint32{sub.identifier}}
	}
	if old != nil {
		sub.held = old.held
	} else if sub.held = s.sizeWithLocked(sub) > guaranteed; sub.held {
		s.broker.held.Add(int64(sub.size()))
	}
	made(&s.filters).put(sub, old)
	s.broker.index.put(sub, old)
}

// unsubscribe handles UNSUBSCRIBE.
func (c *Conn) unsubscribe(dst, body []byte) ([]byte, error) {
	var p packet.Unsubscribe
	if err := p.Decode(c.version, body); err != nil {
		return dst, err
	}
	var buf [8]packet.Code
	codes := buf[:0]
	var commit uint64
	for filter, ok := p.Next(); ok; filter, ok = p.Next() {
		code, number, err := c.unsubscribeFrom(filter)
		if err != nil {
			return dst, err
		}
		codes, commit = append(codes, code), max(commit, number)
	}
	if c.waits(commit) {
		c.more().acks = append(c.extra.acks, ack{commit: commit, packet: packet.AppendUnsuback(nil, c.version, p.ID, codes)})
		return dst, nil
	}
	return packet.AppendUnsuback(dst, c.version, p.ID, codes), nil
}

func (c *Conn) unsubscribeFrom(filter []byte) (code packet.Code, commit uint64, err error) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return 0, 0, lost()
	}
	sub := s.filters.get(view(filter))
	switch {
	case sub != nil:
		return packet.Success, s.unsubscribeLocked(sub), nil
	case !packet.ValidFilter(filter):
		return 0, 0, &packet.Error{Code: packet.InvalidFilter, Text: "UNSUBSCRIBE for what is no topic filter (MQTT 5, 4.7.3)"}
	}
	return packet.NoSubscriptionExisted, 0, nil
}

// unsubscribeLocked ends a subscription.
func (s *session) unsubscribeLocked(sub *subscription) (commit uint64) {
	if s.filters.remove(sub); s.filters.len() == 0 {
		s.filters = nil
	}
	s.broker.removeSubscription(sub)
	s.dropRetainedLocked(sub.filter)
	return s.unstoreSubscriptionLocked(sub)
}

// removeSubscription takes a subscription out of the index.
func (b *Broker) removeSubscription(sub *subscription) {
	if b.index.remove(sub); sub.held {
		b.held.Add(-int64(sub.size()))
	}
}

// size returns what a subscription takes in memory, roughly.
func (sub *subscription) size() int {
	n := subscriptionOverhead + 2*len(sub.filter)
	if strings.ContainsAny(sub.filter, "+#") {
		n += filterLevelOverhead * (1 + strings.Count(sub.filter, "/"))
	}
	return n
}

// sizeWithLocked returns what the session's subscriptions take with one more, as if all had its
// size.
func (s *session) sizeWithLocked(sub *subscription) int { return (s.filters.len() + 1) * sub.size() }
