package score

import (
	"time"

	"github.com/holter-iot/holter/internal/sse"
)

// Parse reads one message.
func Parse(event string, data []byte) (Verdict, bool, error) {
	return parse(sse.Message{Event: []byte(event), Data: data})
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
