package mqtt

import (
	"bytes"
	"time"

	"github.com/holter-iot/holter/mqtt/packet"
)

// will is the last will of a client.
type will struct {
	topic, payload, properties []byte
	delay                      time.Duration
	expiry                     uint32 // seconds, if it has one
	hasExpiry, retain          bool
	qos                        uint8
	grant                      Grant // of its client; nil if it was stored
}

func newWill(w *packet.Will, grant Grant) *will {
	return &will{
		grant: grant,
		topic: bytes.Clone(w.Topic), payload: bytes.Clone(w.Payload), properties: bytes.Clone(w.Properties),
		delay: time.Duration(w.Delay) * time.Second, expiry: w.Expiry, hasExpiry: w.HasExpiry, retain: w.Retain, qos: w.QoS,
	}
}

// size returns what a will takes in memory, roughly; 0 for none.
func (w *will) size() int {
	if w == nil {
		return 0
	}
	return sizeOfWill(w.topic, w.payload, w.properties)
}

func sizeOfWill(topic, payload, properties []byte) int {
	return len(topic) + len(payload) + len(properties) + willOverhead
}

// publishWill publishes a will, if there is one that its client may publish now.
func (b *Broker) publishWill(s *session, w *will, now time.Time) {
	if w == nil {
		return
	}
	if renew := b.config.Renew; renew != nil {
		if g := renew(w.grant, s.user, s.id); g == nil || !g.MayPublish(view(w.topic)) {
			b.counts.denied.Add(1)
			return
		}
	}
	if w.qos > 0 && b.fullAbove() {
		b.counts.dropped.Add(1)
		return
	}
	b.route(&publication{
		from: s, topic: w.topic, payload: w.payload, properties: w.properties,
		expires: expiresAfter(now, w.hasExpiry, w.expiry), qos: w.qos, retain: w.retain,
	}, now)
}
