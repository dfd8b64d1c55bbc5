// Package sink is what the engine of package delivery and the sinks below it agree on: a sink
// delivers messages to one endpoint, and a kind makes sinks from the settings of endpoints. It also
// has what several kinds need: the settings that all have, and the [Guard] of connections.
package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/strictjson"
	"github.com/holter-iot/holter/liveness"
)

// Message is what a sink delivers.
type Message struct {
	// ID is the same in each attempt, and no other message of the endpoint has it.
	ID string
	// Job is the number of the message's job. No other job ever has it.
	Job uint64
	// Key is the ordering key. For an event it is the event's subject.
	Key         string
	URL         string // where to deliver if the endpoint has no target
	ContentType string // of Data; application/cloudevents+json for an event
	Data        []byte
	// Event is the event that the message reports; nil if it reports none, or the event is no longer
	// known.
	Event *liveness.Event
}

// Topic returns the values that templates of topics and subjects are filled with: the type of the
// event and its group, or job and nothing for a message without an event.
func (m *Message) Topic() (kind, group string) {
	if m.Event == nil {
		return "job", ""
	}
	return m.Event.Type.String(), m.Event.Group
}

// Result is the result of the delivery of one message. The zero Result is success.
type Result struct {
	Err       error         // nil if the message was delivered
	Permanent bool          // the message will never be accepted: do not retry
	Gone      bool          // the endpoint accepts no messages any more
	After     time.Duration // how long to send nothing to the endpoint
	Again     time.Time     // without Err: deliver again then; this is no failed attempt
	Status    int           // of the response; 0 if there was none
	Response  string        // the beginning of the response
}

// Sink delivers messages to one endpoint.
type Sink interface {
	// Deliver delivers up to batch messages, see Limits, which may arrive in any order, and returns a
	// result for each. It is called concurrently and owns the messages. It returns soon after ctx is
	// done; the errors of what was not delivered by then wrap that of ctx.
	Deliver(ctx context.Context, messages []Message) []Result
	// Limits returns how long one delivery may take, and how many messages it may have.
	Limits() (timeout time.Duration, batch int)
	// Close releases what the sink holds. It is called once, when no delivery is in progress.
	Close() error
}

// Kind makes the sink of an endpoint from its target and settings. It connects to nothing: that is
// up to the first delivery. Its error says what is wrong with the target or the settings.
type Kind func(target string, settings json.RawMessage) (Sink, error)

const (
	// DefaultTimeout bounds a delivery, and also a connection attempt or a handshake.
	DefaultTimeout = 10 * time.Second
	// MaxTarget is the maximum length of a target in bytes.
	MaxTarget = 2048
	// MaxResponse is how many bytes of a response are kept.
	MaxResponse = 4096

	maxTimeout = 10 * time.Minute
	maxBatch   = 1000
	maxSize    = 1 << 20
)

// Settings are the settings that endpoints of all kinds have. The settings of a kind embed them, and
// a sink that embeds its settings has its Limits from here.
type Settings struct {
	// TimeoutMS bounds one delivery, in milliseconds. Default: 10,000.
	TimeoutMS float64 `json:"timeout_ms,omitempty"`
	// Batch is the maximum number of messages in one delivery. Default: 1.
	Batch int `json:"batch,omitempty"`
}

// Limits implements [Sink].
func (s *Settings) Limits() (timeout time.Duration, batch int) {
	if s.TimeoutMS == 0 {
		return DefaultTimeout, max(s.Batch, 1)
	}
	return time.Duration(s.TimeoutMS * float64(time.Millisecond)), max(s.Batch, 1)
}

// Decode reads the settings of an endpoint into a struct that embeds [Settings]. An unknown setting is
// an error. [Check] checks the embedded ones.
func Decode(text json.RawMessage, into any) error {
	if err := strictjson.Decode(text, into); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return nil
}

// Check returns an error for values that [Settings] cannot have. Settings that cannot be read are left
// to the kind.
func Check(text json.RawMessage) error {
	var s Settings
	_ = json.Unmarshal(text, &s) // a setting of another type stays zero
	var errs []error
	if t := s.TimeoutMS; !(t == 0 || t >= 1 && t <= float64(maxTimeout.Milliseconds())) {
		errs = append(errs, fmt.Errorf("settings: timeout_ms is %v, want 1 to %d", t, maxTimeout.Milliseconds()))
	}
	if s.Batch < 0 || s.Batch > maxBatch {
		errs = append(errs, fmt.Errorf("settings: batch is %d, want 1 to %d", s.Batch, maxBatch))
	}
	return errors.Join(errs...)
}

// Repeat returns the same result for each of n messages.
func Repeat(n int, r Result) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i] = r
	}
	return results
}

// Late returns the error of a delivery that ctx ended before an answer came. who is the receiver.
func Late(ctx context.Context, who string) error {
	return fmt.Errorf("the %s did not answer in time: %w", who, ctx.Err())
}

// Together returns how many messages, from the first on, may be sent at once: as many as have 1 MiB
// of data together, and at least one.
func Together(messages []Message) int {
	size := 0
	for i := range messages {
		if size += len(messages[i].Data); i > 0 && size > maxSize {
			return i
		}
	}
	return len(messages)
}

// EscapeID returns an id with each byte that is not plain written as %XX. No two ids become the same
// if % is not plain.
func EscapeID(id string, plain func(c byte) bool) string {
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
