package score

import (
	"io"
	"time"
)

// Message is a message of server-sent events, for tests.
type Message struct {
	ID, Event, Data string
	HasData         bool
}

// Decode reads all messages, and returns why there are no more.
func Decode(r io.Reader) ([]Message, error) {
	d := NewStreamDecoder(r, maxMessage)
	var all []Message
	for {
		m, err := d.Next()
		if err != nil {
			return all, err
		}
		all = append(all, Message{string(m.ID), string(m.Event), string(m.Data), m.Data != nil})
	}
}

// Parse reads one message.
func Parse(event string, data []byte) (Verdict, bool, error) {
	return parse(StreamMessage{Event: []byte(event), Data: data})
}

// ParseMQTT reads one message.
func (m *MQTT) ParseMQTT(topic, payload string, retained bool) (Verdict, bool) {
	return m.parse(topic, []byte(payload), retained)
}

// Filters are what is subscribed to.
func (m *MQTT) Filters() map[string]byte { return m.filters }

// JudgeClock says what follows from readings of a clock.
func JudgeClock(here bool, readings ...[2]time.Duration) (skew, err time.Duration) {
	var recent []reading
	for _, r := range readings {
		recent = append(recent, reading{r[0], r[1]})
	}
	e := judgeClock(recent, here)
	return e.skew, e.err
}
