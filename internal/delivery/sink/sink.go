// Package sink is what the engine of package delivery and the sinks below it agree on: a sink
// delivers messages to one endpoint, and a kind makes sinks from the settings of endpoints. It also
// has what several kinds need: the settings that all have, those of servers to connect to, and the
// [Guard] of connections.
package sink

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/credential"
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

// OneAtATime is implemented by sinks to which one delivery is made after the other, so that what waits
// meanwhile is delivered together.
type OneAtATime interface {
	// OneAtATime does nothing.
	OneAtATime()
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

	maxTimeout    = 10 * time.Minute
	maxBatch      = 1000
	maxBreakAfter = 10_000
	maxBreak      = time.Hour
	maxSize       = 1 << 20
)

// Settings are the settings that endpoints of all kinds have. The settings of a kind embed them, and
// a sink that embeds its settings has its Limits from here.
type Settings struct {
	// TimeoutMS bounds one delivery, in milliseconds. Default: 10,000.
	TimeoutMS float64 `json:"timeout_ms,omitempty"`
	// Batch is the maximum number of messages in one delivery. Default: 1.
	Batch int `json:"batch,omitempty"`
	// BreakAfter is how many deliveries in a row must fail until the endpoint rests. Default: 5.
	BreakAfter int `json:"break_after,omitempty"`
	// BreakOverMS is the least time from the first of these failures to the last, in milliseconds.
	// Default: 1,000.
	BreakOverMS float64 `json:"break_over_ms,omitempty"`
	// BreakForMS is how long the endpoint rests, in milliseconds. Default: 10,000.
	BreakForMS float64 `json:"break_for_ms,omitempty"`
}

// Break says when an endpoint rests that fails: after so many failures in a row that lie so far apart, for
// how long.
type Break struct {
	After     int
	Over, For time.Duration
}

// Break returns the rule of an endpoint.
func (s *Settings) Break() Break {
	return Break{
		After: cmp.Or(s.BreakAfter, 5), Over: millis(cmp.Or(s.BreakOverMS, 1000)), For: millis(cmp.Or(s.BreakForMS, 10_000)),
	}
}

func millis(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// Limits implements [Sink].
func (s *Settings) Limits() (timeout time.Duration, batch int) {
	if s.TimeoutMS == 0 {
		return DefaultTimeout, max(s.Batch, 1)
	}
	return millis(s.TimeoutMS), max(s.Batch, 1)
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
	s := Common(text)
	var errs []error
	within := func(name string, value float64, most int64) {
		if !(value == 0 || value >= 1 && value <= float64(most)) {
			errs = append(errs, fmt.Errorf("settings: %s is %v, want 1 to %d", name, value, most))
		}
	}
	within("timeout_ms", s.TimeoutMS, maxTimeout.Milliseconds())
	within("batch", float64(s.Batch), maxBatch)
	within("break_after", float64(s.BreakAfter), maxBreakAfter)
	within("break_over_ms", s.BreakOverMS, maxBreak.Milliseconds())
	within("break_for_ms", s.BreakForMS, maxBreak.Milliseconds())
	return errors.Join(errs...)
}

// Common returns the settings that endpoints of all kinds have. One of another type is zero.
func Common(text json.RawMessage) (s Settings) {
	_ = json.Unmarshal(text, &s)
	return s
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

// IsCredential reports whether a setting names a credential, which [Secret] reads. A kind does
// so when it needs the secret, not before: a credential may be there later than the endpoint, and change.
func IsCredential(setting string) bool { return strings.HasPrefix(setting, credentials) }

const (
	credentials = "credential:"
	// ownCredentials begins the names of the credentials that endpoints may read. Whoever may set an
	// endpoint can have what it reads sent anywhere: the password of the database is not among that.
	ownCredentials = "endpoint-"
)

// Secret returns the secret of a setting: of credential:NAME the text of the credential, which is read at
// each call; otherwise setting itself. It fails if NAME does not begin with endpoint-, or the credential
// cannot be read. No error shows a secret.
func Secret(setting string) (string, error) {
	if name, ok := strings.CutPrefix(setting, credentials); ok && !strings.HasPrefix(name, ownCredentials) {
		return "", fmt.Errorf("the credential %.80q is not for endpoints: they read only those whose names begin with %s; give the file such a name, as in %s%sNAME",
			name, ownCredentials, credentials, ownCredentials)
	}
	return credential.Read(setting)
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
