package mqttbridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// Config describes a connection to a broker and what its messages mean.
type Config struct {
	// Name is the name of the bridge and of its source. It contains no slash. Default: mqtt: and
	// the broker's host, with its port unless that is 1883 or 8883.
	Name string
	// URL is the broker's address, with the scheme tcp, mqtt, tls, ssl, mqtts, ws or wss. Default
	// ports are 1883, 8883, 80 and 443. It contains no password. Required.
	URL string
	// ClientID is the client identifier. Default: holter- and a random text, chosen by New.
	ClientID string
	// Session is called before each connection. It returns the client identifier, in place of
	// ClientID; with an error, the bridge does not connect, and tries again later. A broker has one
	// connection of an identifier, so that processes that take over from each other have one between
	// them: each must know here that it is its turn, or they end each other's connections. It may
	// block until ctx is done. nil: ClientID, at any time.
	Session  func(ctx context.Context) (clientID string, err error)
	Username string
	// Password is called for each connection, so that the password can change without a restart.
	// nil: none.
	Password func() (string, error)
	// TLS is used by the schemes that need it. nil: the system's roots.
	TLS *tls.Config
	// Conventions say what messages mean. At least one is required.
	Conventions []convention.Convention
	// Share is the group of shared subscriptions ($share/GROUP/...), for brokers that allow nothing
	// else. A message goes to one member only, so that a second member takes heartbeats away from
	// this bridge. Default: no group.
	Share string
	// QoS is the least quality of service of the subscriptions, 0 or 1. With 1 the broker queues
	// messages that the bridge cannot take at once.
	QoS byte
	// Watermark is the topic of the bridge's messages to itself; "off" for none. Default: holter/watermark/CLIENT_ID.
	Watermark string
	// Queue is the largest number of messages that may wait to be applied. They take at most 64
	// MiB. Default: 65,536.
	Queue int
	// MaxPayload is the size of the largest payload that is applied. Larger ones are rejected
	// without holding them in memory. Default: 256 KiB.
	MaxPayload int
	// Identify is told what Home Assistant knows a device by; the zero value is nothing any more. It is
	// called by one goroutine at a time, and must not block. nil: nobody asks.
	Identify func(device string, id convention.Identity)
	// Ignore holds prefixes of topics that are ignored. holter/ always is.
	Ignore []string

	// KeepAlive is the keep alive of MQTT. Default: 30 s.
	KeepAlive time.Duration
	// ConnectTimeout bounds a connection attempt, up to CONNACK, and the acknowledgement of
	// subscriptions. Default: 10 s.
	ConnectTimeout time.Duration
	// ReconnectMax is the longest pause between two connection attempts. Pauses grow from half a
	// second, with jitter. Default: 30 s.
	ReconnectMax time.Duration
	// ProbeTimeout is how long the broker may send nothing while a watermark is under way before the
	// source is deaf. A connection is closed if that happens before its first watermark is back, and when
	// 12 watermarks, one for each ProbeTimeout, are under way. Default: 5 s.
	ProbeTimeout time.Duration
	// MaxGap, ReconnectGrace and ReconnectGraceMax are those of liveness.SourceConfig.
	MaxGap, ReconnectGrace, ReconnectGraceMax time.Duration
	// Logger receives the events of the connection. Default: nothing is logged.
	Logger *slog.Logger

	answersOnly bool // Watermark was off
	// network connects to the address of a tcp:// URL. Default: a [net.Dialer], with the options of the client.
	network func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	ownTopics     = "holter/"
	noWatermark   = "off"
	maxQueueBytes = 64 << 20
	// maxPacket is the largest packet of MQTT.
	maxPacket = 256 << 20
)

// ErrURL is wrapped by the error of New for a URL that is not a broker's address.
var ErrURL = errors.New("mqttbridge: not a broker's address")

// withDefaults fills in the defaults and returns an error for invalid values.
func (c Config) withDefaults() (Config, error) {
	u, err := parseURL(c.URL)
	if err != nil {
		return c, err
	}
	c.URL = u.String()
	c.Name = cmp.Or(c.Name, "mqtt:"+strings.TrimSuffix(strings.TrimSuffix(u.Host, ":1883"), ":8883"))
	c.ClientID = cmp.Or(c.ClientID, "holter-"+strings.ToLower(rand.Text()[:10]))
	if c.answersOnly = c.Watermark == noWatermark; c.answersOnly {
		c.Watermark = ""
	}
	c.Queue, c.MaxPayload = cmp.Or(c.Queue, 1<<16), cmp.Or(c.MaxPayload, 256<<10)
	c.KeepAlive, c.ConnectTimeout = cmp.Or(c.KeepAlive, 30*time.Second), cmp.Or(c.ConnectTimeout, 10*time.Second)
	c.ReconnectMax, c.ProbeTimeout = cmp.Or(c.ReconnectMax, 30*time.Second), cmp.Or(c.ProbeTimeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Ignore = append(slices.Clone(c.Ignore), ownTopics)
	return c, c.validate()
}

func (c *Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("mqttbridge: "+format, args...)) }
	if len(c.Conventions) == 0 {
		bad("no conventions: nothing says what messages mean")
	}
	if strings.Contains(c.Name, "/") {
		bad("Name is %q: what stands behind a slash is a gateway", c.Name)
	}
	if c.QoS > 1 {
		bad("QoS is %d, want 0 or 1", c.QoS)
	}
	if c.Queue < 1 {
		bad("Queue is %d, want 1 or more", c.Queue)
	}
	if c.MaxPayload < 1 || c.MaxPayload > maxPacket/2 {
		bad("MaxPayload is %d, want 1 to %d", c.MaxPayload, maxPacket/2)
	}
	if topic := c.watermark(c.ClientID); strings.ContainsAny(topic, "+#\x00") {
		bad("Watermark is %q: a topic to publish to has no wildcards", topic)
	}
	if strings.ContainsAny(c.Share, "+#/\x00") {
		bad("Share is %q: the name of a group has no wildcards and no /", c.Share)
	}
	for name, d := range map[string]time.Duration{
		"KeepAlive": c.KeepAlive, "ConnectTimeout": c.ConnectTimeout, "ReconnectMax": c.ReconnectMax, "ProbeTimeout": c.ProbeTimeout,
	} {
		if d < 0 || d > time.Hour {
			bad("%s is %v, want up to 1h", name, d)
		}
	}
	return errors.Join(errs...)
}

// watermark returns the topic of the messages to itself of a bridge with a client identifier.
func (c *Config) watermark(clientID string) string {
	return cmp.Or(c.Watermark, ownTopics+"watermark/"+clientID)
}

// parseURL returns a broker's address with its port.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil { // the error's text may contain a password
		return nil, fmt.Errorf("%w: want for instance tcp://broker:1883", ErrURL)
	}
	port := map[string]string{
		"tcp": "1883", "mqtt": "1883", "tls": "8883", "ssl": "8883", "mqtts": "8883", "ws": "80", "wss": "443",
	}[u.Scheme]
	switch {
	case port == "":
		return nil, fmt.Errorf("%w: %s: want tcp://, mqtt://, tls://, ssl://, mqtts://, ws:// or wss://", ErrURL, u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("%w: %s: leave user and password out, and give them apart", ErrURL, u.Redacted())
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: %s: it names no host", ErrURL, u.Redacted())
	}
	if u.Port() == "" {
		u.Host += ":" + port
	}
	return u, nil
}
