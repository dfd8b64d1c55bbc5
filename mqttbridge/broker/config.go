package broker

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/sockets"
)

// Config is the configuration of a broker. Only Listen is required.
type Config struct {
	// Listen is the address to listen at, HOST:PORT. Port 0 chooses a free one, see [Broker.Addr].
	Listen string
	// Source is the source's name in events and views. Default: "mqtt".
	Source string
	// MaxGap, ReconnectGrace and ReconnectGraceMax are those of liveness.SourceConfig.
	MaxGap, ReconnectGrace, ReconnectGraceMax time.Duration
	// Auth authenticates clients. Default: [Anonymous](true), which accepts clients on this machine
	// only.
	Auth Auth
	// Reserved is a prefix of topics under which only the program publishes; clients may read them.
	// Default: "holter/". "-": none.
	Reserved string
	// TLS makes the broker speak TLS, 1.2 or newer. Default: it does not.
	TLS *tls.Config
	// MaxClients bounds the connected clients. Default: the limit on open files, less 3 %, at least 128, for other uses.
	MaxClients int
	// MaxPacket is the size of the largest accepted packet, in bytes. Default: 256 KiB.
	MaxPacket int
	// MaxInflight bounds the messages with QoS 1 or 2 that wait for a client or its acknowledgement, those for one that is away among them.
	// Default: 512.
	MaxInflight int
	// MaxPending bounds the messages that are queued for a client and not written; it takes 8 bytes for each. More are dropped. Default: 128.
	MaxPending int
	// MaxUnsent bounds the bytes that were written to a client and that it does not take: messages are dropped while there are more, and a
	// client to which other packets add up to twice that and a packet is cut off. Default: 256 KiB.
	MaxUnsent int
	// MaxSubscriptions bounds the subscriptions of a client. Default: 1,000.
	MaxSubscriptions int
	// MaxRetained and MaxRetainedBytes bound the retained messages of clients, topics and payloads counted. More are delivered, but not kept.
	// Default: 100,000 and 256 MiB.
	MaxRetained, MaxRetainedBytes int
	// ConnectTimeout is how long a connection has for TLS and its CONNECT. Default: 10 s.
	ConnectTimeout time.Duration
	// SendTimeout is how long a client may accept no data before it is disconnected. Default: 30 s.
	SendTimeout time.Duration
	// SessionExpiry is the longest time for which the session of a disconnected client is kept.
	// Default: 24 h.
	SessionExpiry time.Duration
	// CloseRate is the number of connections closed per second after verdicts, so that many
	// verdicts at once do not disturb other devices. Default: 2,000.
	CloseRate int
	// Logger receives events for the operator. Default: slog.Default().
	Logger *slog.Logger

	commitTimeout time.Duration // how long a client waits for what its CONNECT caused to be stored; 2 s but in tests
}

const (
	// maxTopic is the length of the longest accepted topic, in bytes, and maxLevels its largest
	// number of levels.
	maxTopic, maxLevels = 1024, 64
	// maxConnect is the size of the largest accepted CONNECT, because its sender is not
	// authenticated yet.
	maxConnect = 64 << 10
	// readBuffer is what each connection has to read into; larger packets have their own.
	readBuffer = 256
)

func (c Config) withDefaults() (Config, error) {
	c.Source = cmp.Or(c.Source, "mqtt")
	c.commitTimeout = cmp.Or(c.commitTimeout, 2*time.Second)
	if c.Auth == nil {
		c.Auth = Anonymous(true)
	}
	switch c.Reserved {
	case "":
		c.Reserved = "holter/"
	case "-":
		c.Reserved = ""
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.TLS != nil {
		c.TLS = c.TLS.Clone()
		c.TLS.MinVersion = max(c.TLS.MinVersion, tls.VersionTLS12)
	}
	err := errors.Join(
		c.validate(),
		within("MaxClients", &c.MaxClients, sockets.MaxConnections(), 1, 1<<24),
		within("MaxPacket", &c.MaxPacket, 256<<10, 1<<10, 256<<20),
		within("MaxInflight", &c.MaxInflight, 512, 1, math.MaxUint16),
		within("MaxPending", &c.MaxPending, 128, 1, 1<<20),
		within("MaxUnsent", &c.MaxUnsent, 256<<10, 1<<10, 1<<30),
		within("MaxSubscriptions", &c.MaxSubscriptions, 1000, 1, 1<<20),
		within("MaxRetained", &c.MaxRetained, 100_000, 1, 1<<30),
		within("MaxRetainedBytes", &c.MaxRetainedBytes, 256<<20, 1, 1<<40),
		within("CloseRate", &c.CloseRate, 2_000, 1, 1<<30),
		within("ConnectTimeout", &c.ConnectTimeout, 10*time.Second, time.Millisecond, time.Hour),
		within("SendTimeout", &c.SendTimeout, 30*time.Second, time.Millisecond, time.Hour),
		within("SessionExpiry", &c.SessionExpiry, 24*time.Hour, time.Second, 366*24*time.Hour),
	)
	return c, err
}

// within sets a value that is 0 to its default, and returns an error for one that is out of bounds.
func within[T int | time.Duration](name string, value *T, byDefault, least, most T) error {
	if *value == 0 {
		*value = byDefault
	}
	if *value < least || *value > most {
		return fmt.Errorf("broker: %s is %v, want %v to %v", name, *value, least, most)
	}
	return nil
}

func (c Config) validate() error {
	var errs []error
	if c.Listen == "" {
		errs = append(errs, errors.New("broker: Listen is empty, want an address"))
	}
	if strings.ContainsAny(c.Reserved, "+#") {
		errs = append(errs, fmt.Errorf("broker: Reserved is %q, want the beginning of a topic, without + and #", c.Reserved))
	}
	return errors.Join(errs...)
}
