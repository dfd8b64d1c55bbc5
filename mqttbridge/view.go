package mqttbridge

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// View is a snapshot of a bridge.
type View struct {
	Name          string
	URL           string
	Connected     bool
	Since         time.Time // start of the connection, or of its absence
	LastError     string    // reason why there is no connection; empty while there is one
	Subscriptions []string  // of the conventions, sorted, and then those that messages asked for
	LeftOut       []string  // those that messages asked for, and that the broker refuses or closes the connection for; sorted
	Watermark     string    // "message" or "answer", see the package documentation
	Listening     bool      // the listening clock moves

	Messages uint64            // received messages
	Retained uint64            // retained ones among them
	Beats    uint64            // heartbeats applied
	Rejected map[string]uint64 // messages rejected, by reason
	Dropped  uint64            // messages dropped because the queue was full
	Queue    int               // items in the queue
	QueueMax int
}

// View returns a snapshot of the bridge.
func (b *Bridge) View() View {
	v := View{Name: b.config.Name, URL: b.config.URL, Watermark: "message", QueueMax: b.config.Queue}
	if b.answers.Load() {
		v.Watermark = "answer"
	}
	v.Queue, v.Dropped = b.queue.depth()
	v.Messages, v.Retained, v.Beats = b.counts.messages.Load(), b.counts.retained.Load(), b.counts.beats.Load()
	v.Rejected = b.counts.rejections()
	v.Listening, v.LeftOut = b.clock.listening(), b.extras.leftOut()
	b.mu.Lock()
	defer b.mu.Unlock()
	v.Connected, v.Since, v.Subscriptions = b.status.connected, b.status.since, slices.Clone(b.status.filters)
	if b.status.err != nil {
		v.LastError = b.status.err.Error()
	}
	return v
}

// counts are the counters of a bridge.
type counts struct {
	messages, retained, beats atomic.Uint64

	mu       sync.Mutex // guards the field below
	rejected map[string]uint64
}

func (c *counts) message(retained bool) {
	c.messages.Add(1)
	if retained {
		c.retained.Add(1)
	}
}

func (c *counts) reject(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rejected == nil {
		c.rejected = make(map[string]uint64)
	}
	c.rejected[reason]++
}

// refuse counts an error by its reason.
func (c *counts) refuse(err error) {
	if rejected, ok := errors.AsType[*convention.Rejected](err); ok {
		c.reject(rejected.Reason)
		return
	}
	switch {
	case errors.Is(err, liveness.ErrInvalidID):
		c.reject("device_id")
	case errors.Is(err, liveness.ErrStaleEpoch):
		c.reject("stale_session")
	case errors.Is(err, liveness.ErrFull):
		c.reject("full")
	case errors.Is(err, liveness.ErrBusy):
		c.reject("busy")
	default:
		c.reject("other")
	}
}

func (c *counts) rejections() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.rejected)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
