package mqtt

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/mqtt/packet"
)

// Broker is the engine of an MQTT broker. Create it with [New].
type Broker struct {
	config    Config
	sessions  sessions
	index     index
	retained  retained
	deadlines deadlines
	journal   *journal // nil without a store
	counts    counters
	queues    queues
	found     sync.Pool // of *matches
	numbers   atomic.Uint64
	away      atomic.Int64 // sessions of clients that are away
	held      atomic.Int64 // bytes that clients have it hold
	underWay  atomic.Int64 // subscriptions that unfinished messages have found

	upstream      *remote                // nil without
	reservedAbove atomic.Pointer[string] // of the upstream broker: as Config.Reserved; nil if it is not known
	remoteFilters atomic.Int64           // subscriptions of other brokers
}

// New returns a broker. It starts nothing, see [Broker.Open] and [Broker.Run].
func New(config Config) (*Broker, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{config: config, journal: newJournal(&config)}
	b.sessions.init()
	b.deadlines.changed = make(chan struct{}, 1)
	b.found.New = func() any { return new(matches) }
	return b, nil
}

// Run ends sessions and publishes delayed wills when they are due, and commits to the store, until
// ctx is done. Then it commits what is left, for 5 seconds at most, and returns nil: all connections
// are to be closed before.
func (b *Broker) Run(ctx context.Context) error {
	var group sync.WaitGroup
	if b.journal != nil {
		group.Go(func() { b.journal.run(ctx) })
	}
	b.runDeadlines(ctx)
	group.Wait()
	return nil
}

// reserved reports whether only the program publishes to a topic, here or at the upstream broker.
func (b *Broker) reserved(topic string) bool {
	above := b.reservedAbove.Load()
	return b.config.reserved(topic) || above != nil && *above != "" && below(topic, *above)
}

// ErrTopic is returned by [Broker.Publish] for what is no topic, or one that is too long or too
// deep.
var ErrTopic = errors.New("mqtt: not a topic")

// Publish publishes a message of the program's, with QoS 0, to any topic. If it is to be retained,
// an empty payload removes what is retained. It copies payload.
func (b *Broker) Publish(topic string, payload []byte, retain bool) error {
	t := []byte(topic)
	if !bounded(topic) || !packet.ValidTopic(t) {
		return ErrTopic
	}
	b.route(&publication{topic: t, payload: payload, retain: retain}, time.Now())
	return nil
}

// Retained returns the payloads of the retained messages whose topics match a filter, by topic.
// They must not be changed. It takes time in proportion to all retained messages.
func (b *Broker) Retained(filter string) map[string][]byte {
	if !packet.ValidFilter([]byte(filter)) {
		return nil
	}
	found := make(map[string][]byte)
	now := time.Now()
	for at, n := 1, 1; n > 0; at += n {
		var part []*message
		part, n = b.retained.scan(filter, math.MaxUint64, at, chunk, now)
		for _, m := range part {
			found[m.topic] = m.payload
		}
	}
	return found
}
