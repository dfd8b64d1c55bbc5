package route

import (
	"time"

	"github.com/holter-iot/holter/internal/cluster/route/routepb"
	"github.com/holter-iot/holter/internal/relay"
)

// encoded returns messages as they travel.
func encoded(batch []queued) []*routepb.Message {
	if len(batch) == 0 {
		return nil
	}
	messages := make([]routepb.Message, len(batch))
	all := make([]*routepb.Message, len(batch))
	now := time.Now()
	for i := range batch {
		l, m := &batch[i], &messages[i]
		m.Kind, m.Number, m.Confirms = routepb.Kind(l.Kind), l.number, l.Number
		m.Topic, m.Payload, m.Properties = []byte(l.Topic), l.Payload, l.Properties
		m.Qos, m.Retain, m.Kept, m.Share = uint32(l.QoS), l.Retain, l.Kept, []byte(l.Share)
		if !l.Expires.IsZero() {
			m.LeftNs = max(1, int64(l.Expires.Sub(now)))
		}
		all[i] = m
	}
	return all
}

// decoded returns a message that has travelled.
func decoded(m *routepb.Message, now time.Time) relay.Message {
	out := relay.Message{
		Kind: relay.Kind(m.GetKind()), Number: m.GetNumber(), Topic: string(m.GetTopic()), Payload: m.GetPayload(), Properties: m.GetProperties(),
		QoS: uint8(min(m.GetQos(), 2)), Retain: m.GetRetain(), Kept: m.GetKept(), Share: string(m.GetShare()),
	}
	if out.Kind == relay.Confirmed {
		out.Number = m.GetConfirms()
	}
	if m.GetLeftNs() > 0 {
		out.Expires = now.Add(time.Duration(m.GetLeftNs()))
	}
	return out
}
