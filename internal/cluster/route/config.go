package route

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"
)

// DefaultMaxBytes is the default of Config.MaxBytes.
const DefaultMaxBytes = 32 << 20

// MaxFrame is the size of the largest batch, in bytes, which the gRPC server of a hub has to take: a message
// has at most 256 MiB. A broker whose clients may send larger messages than those of others would else not
// get beyond the first of these.
const MaxFrame = 320 << 20

const (
	// maxBatch and maxMessages bound a batch, but for its last message.
	maxBatch, maxMessages = 256 << 10, 512
	// maxFilters bounds the filters in a batch.
	maxFilters = 2048
	// spokePatience is how long a hub keeps what waits for a spoke that is not there.
	spokePatience = time.Minute
	// retryEvery is how often a spoke tries to get a stream, and how often a hub that takes nothing looks
	// whether it can.
	retryEvery, fullEvery = 250 * time.Millisecond, 10 * time.Millisecond
	// messageOverhead is what a message takes beside its bytes, roughly.
	messageOverhead = 256
)

// Config configures a [Hub] or a [Spoke]. The zero Config is a good one.
type Config struct {
	// MaxBytes bounds the messages that wait for a broker, those that it has not acknowledged among
	// them. Default: 32 MiB.
	MaxBytes int
	// Logger is told when brokers come and go. Default: none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// counters are what Stats reports.
type counters struct {
	sent, received, dropped atomic.Uint64
	queued                  atomic.Int64
}

// Stats is a picture of a hub or a spoke.
type Stats struct {
	Brokers     int    // that messages are exchanged with now
	Sent        uint64 // messages to other brokers
	Received    uint64 // messages of other brokers
	Dropped     uint64 // messages that another broker did not get: too many waited for it, or it was gone for long
	QueuedBytes int    // what waits for other brokers, or is not acknowledged by them, now
}

func (c *counters) stats(brokers int) Stats {
	return Stats{
		Brokers: brokers, Sent: c.sent.Load(), Received: c.received.Load(), Dropped: c.dropped.Load(), QueuedBytes: int(c.queued.Load()),
	}
}
