package mqtt

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// DefaultMaxPacket is the default of Config.MaxPacket, in bytes.
const DefaultMaxPacket = 256 << 10

// Config is the configuration of a broker. The zero value is good.
type Config struct {
	// MaxPacket is the size of the largest packet that clients may send, in bytes; clients of MQTT
	// 5 are told. The caller of [Conn.Handle] enforces it. Default: 256 KiB.
	MaxPacket int
	// ReceiveMaximum bounds the messages with QoS 1 and 2 of a client that are not acknowledged
	// yet. Clients of MQTT 5 are told, and cut off if they send more. Default: 64.
	ReceiveMaximum int
	// TopicAliases is the number of topic aliases that a client may use. Default: 16. -1: none.
	TopicAliases int
	// MaxInflight bounds the messages with QoS 1 and 2 that a client has not acknowledged; its
	// own Receive Maximum may be lower. Default: 64.
	MaxInflight int
	// MaxQueue and MaxQueueBytes bound the messages that a session holds for its client, connected
	// or not, those that are not acknowledged among them. More are dropped; so are messages with
	// QoS 0 for a client that is away. Defaults: 1,000 and 1 MiB.
	MaxQueue, MaxQueueBytes int
	// MaxSubscriptions bounds the subscriptions of a session. Default: 1,000.
	MaxSubscriptions int
	// MaxSessions bounds the sessions of clients that are away; one more is not kept. Default:
	// 1,000,000.
	MaxSessions int
	// MaxHeldBytes bounds the bytes that the broker holds for all clients together: messages that
	// wait, each counted once, sessions of clients that are away with all that they have, and of
	// clients that are connected what is more than 4 KiB each of messages, subscriptions, ids of
	// messages with QoS 2, and a will. No client may have more of one kind than a 32nd of what is
	// free; a quarter is left to clients that are connected. Default: 1 GiB.
	MaxHeldBytes int
	// MaxRetained and MaxRetainedBytes bound the retained messages of clients; more are delivered,
	// but not kept. Defaults: 100,000 and 256 MiB.
	MaxRetained, MaxRetainedBytes int
	// SessionExpiry is the longest time for which the session of a client is kept that is away.
	// Default: 24 h.
	SessionExpiry time.Duration
	// Reserved is a prefix of topics under which only the program publishes; clients may read them.
	// $SYS always is one. Default: "holter/". "-": none.
	Reserved string
	// Renew returns what a client may do now, which may be less than its grant says; nil if it would not
	// be let in any more. grant is nil if the broker was started since; user is the one that it said. It is
	// asked before a will is published, by several goroutines at a time, and must not block. Default: what a
	// client may do never changes.
	Renew func(grant Grant, user, clientID string) Grant
	// Store keeps sessions and retained messages. Default: none, nothing outlives the process.
	Store Store
	// Logger receives events for the operator. Default: slog.Default().
	Logger *slog.Logger
}

const (
	// maxTopic is the length of the longest topic or filter, in bytes, and maxLevels its largest
	// number of levels: each costs memory in an index.
	maxTopic, maxLevels = 1024, 64
	// maxAliases bounds the topic aliases towards a client.
	maxAliases = 64
	// maxQueueBytes is the default of MaxQueueBytes: a thousand messages, as many as MaxQueue is by default, of 1 KiB
	// each, which is more than what most devices send.
	maxQueueBytes = 1 << 20
	// maxHeldBytes is the default of MaxHeldBytes, a bound for what strangers can make the broker keep. It is enough
	// for 800,000 clients that are away with a subscription each, or for a thousand full queues.
	maxHeldBytes = 1 << 30
)

func (c Config) withDefaults() (Config, error) {
	switch c.Reserved {
	case "":
		c.Reserved = "holter/"
	case "-":
		c.Reserved = ""
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	none := c.TopicAliases == -1
	if none {
		c.TopicAliases = 0
	}
	err := errors.Join(
		within("MaxPacket", &c.MaxPacket, DefaultMaxPacket, 1<<10, 256<<20),
		within("ReceiveMaximum", &c.ReceiveMaximum, 64, 1, 65_535),
		within("TopicAliases", &c.TopicAliases, 16, 1, 65_535),
		within("MaxInflight", &c.MaxInflight, 64, 1, 60_000),
		within("MaxQueue", &c.MaxQueue, 1000, 1, 60_000),
		within("MaxQueueBytes", &c.MaxQueueBytes, maxQueueBytes, 1<<10, 1<<40),
		within("MaxSubscriptions", &c.MaxSubscriptions, 1000, 1, 1<<20),
		within("MaxSessions", &c.MaxSessions, 1_000_000, 1, 1<<30),
		within("MaxHeldBytes", &c.MaxHeldBytes, maxHeldBytes, 1<<20, 1<<40),
		within("MaxRetained", &c.MaxRetained, 100_000, 1, 1<<30),
		within("MaxRetainedBytes", &c.MaxRetainedBytes, 256<<20, 1<<10, 1<<40),
		within("SessionExpiry", &c.SessionExpiry, 24*time.Hour, time.Second, 366*24*time.Hour),
	)
	if none {
		c.TopicAliases = 0
	}
	if strings.ContainsAny(c.Reserved, "+#") {
		err = errors.Join(err, fmt.Errorf("mqtt: Reserved is %q, want the beginning of a topic, without + and #", c.Reserved))
	}
	return c, err
}

// within sets a value that is 0 to its default, and returns an error for one that is out of bounds.
func within[T int | time.Duration](name string, value *T, byDefault, least, most T) error {
	if *value == 0 {
		*value = byDefault
	}
	if *value < least || *value > most {
		return fmt.Errorf("mqtt: %s is %v, want %v to %v", name, *value, least, most)
	}
	return nil
}

// expiry returns the whole seconds of the longest session expiry.
func (c *Config) expiry() uint32 { return uint32(c.SessionExpiry / time.Second) }

// reserved reports whether only the program publishes to a topic.
func (c *Config) reserved(topic string) bool {
	return below(topic, "$SYS/") || c.Reserved != "" && below(topic, c.Reserved)
}

// below reports whether a topic begins with a prefix, or is what comes before the slash at its end.
func below(topic, prefix string) bool {
	return strings.HasPrefix(topic, prefix) || topic == strings.TrimSuffix(prefix, "/")
}

// bounded reports whether a topic or filter is not longer and deeper than allowed.
func bounded(topic string) bool {
	return len(topic) <= maxTopic && strings.Count(topic, "/") < maxLevels
}
