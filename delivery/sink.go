package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/strictjson"
	"github.com/holter-iot/holter/liveness"
)

// Message is what is delivered.
type Message struct {
	// ID is the same each time that the message is delivered, and no other message of the endpoint has it.
	ID string
	// Job is the number of its job, which no other job ever has.
	Job uint64
	// Key is the ordering key: the subject of an event.
	Key         string
	URL         string // where to, if the endpoint does not say so
	ContentType string // of Data; application/cloudevents+json for an event
	Data        []byte
	// Event is the event that it tells of, nil if there is none any more or never was.
	Event *liveness.Event
}

// Result is what came of the delivery of a message. The zero Result is success.
type Result struct {
	Err       error         // nil: it was delivered
	Permanent bool          // it will never be; do not try again
	Gone      bool          // nor will any other to this endpoint
	After     time.Duration // nothing should be sent there before
	Again     time.Time     // without Err: it is not done, and is to be delivered again then; that is no failed attempt
	Status    int           // of the answer, 0 if there is none
	Response  string        // the beginning of the answer
}

// Sink delivers messages.
type Sink interface {
	// Deliver delivers messages that may arrive in any order, at most as many at once as the endpoint's batch says, and returns a result for
	// each. It is called concurrently, ends soon after ctx is done, with errors that wrap that of ctx, and owns the messages.
	Deliver(ctx context.Context, messages []Message) []Result
	// Close lets go of what the sink holds. It is called once, when no delivery is going on.
	Close() error
}

// Kind makes the sink of an endpoint. It touches nothing outside: what needs a connection is done by the first delivery. Its errors say
// what is wrong with target or settings.
type Kind func(target string, settings json.RawMessage) (Sink, error)

// Common are the settings that endpoints of all kinds have. A kind's own settings embed them, and leave them alone.
type Common struct {
	// TimeoutMS bounds one delivery. Default: 10,000.
	TimeoutMS float64 `json:"timeout_ms,omitempty"`
	// Batch is how many messages are delivered at once at most. Default: 1.
	Batch int `json:"batch,omitempty"`
}

const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = 10 * time.Minute
	maxBatch       = 1000
)

func (c Common) timeout() time.Duration {
	if c.TimeoutMS == 0 {
		return defaultTimeout
	}
	return time.Duration(c.TimeoutMS * float64(time.Millisecond))
}

func (c Common) batch() int { return max(c.Batch, 1) }

func (c Common) check() error {
	var errs []error
	if t := c.TimeoutMS; !(t == 0 || t >= 1 && t <= float64(maxTimeout.Milliseconds())) {
		errs = append(errs, fmt.Errorf("timeout_ms is %v, want 1 to %d", t, maxTimeout.Milliseconds()))
	}
	if c.Batch < 0 || c.Batch > maxBatch {
		errs = append(errs, fmt.Errorf("batch is %d, want 1 to %d", c.Batch, maxBatch))
	}
	return errors.Join(errs...)
}

// DecodeSettings reads the settings of a kind into a struct that embeds [Common]. What is not known is a mistake.
func DecodeSettings(text json.RawMessage, into any) error {
	if err := strictjson.Decode(text, into); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return nil
}

// all returns the same result for each of n messages.
func all(n int, r Result) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i] = r
	}
	return results
}
