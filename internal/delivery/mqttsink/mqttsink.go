// Package mqttsink publishes messages to MQTT 3.1.1 brokers.
package mqttsink

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// settings are the settings of an endpoint of kind mqtt.
type settings struct {
	sink.Settings

	// Topic is where to publish. {key} stands for the ordering key, which is the device's id for an
	// event, and {type} for the event's type, or job. Default: holter/{type}/{key}.
	Topic string `json:"topic,omitempty"`
	// QoS is 0, 1 or 2. Default: 1.
	QoS    *byte `json:"qos,omitempty"`
	Retain bool  `json:"retain,omitempty"`

	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	ClientID string `json:"client_id,omitempty"`
}

const (
	defaultTopic = "holter/{type}/{key}"
	maxTopic     = 1024
)

// publisher is a sink. It connects with the first delivery, and again after the connection was lost.
type publisher struct {
	settings

	options *mqtt.ClientOptions
	dialer  net.Dialer
	turn    chan struct{} // capacity 1: held while connecting; never closed

	client mqtt.Client // guarded by turn; nil before the first delivery
}

// Kind returns the kind of sinks that publish to the brokers that the guard allows.
func Kind(guard *sink.Guard) sink.Kind {
	return func(target string, text json.RawMessage) (sink.Sink, error) {
		u, err := url.Parse(target)
		if err != nil || !slices.Contains([]string{"tcp", "mqtt"}, u.Scheme) && !overTLS(u) || u.Hostname() == "" || u.User != nil || len(target) > sink.MaxTarget {
			return nil, fmt.Errorf("target: %.200q is no MQTT broker; want tcp://HOST:1883 or tls://HOST:8883, and user and password in the settings", target)
		}
		one := byte(1)
		s := settings{Topic: defaultTopic, QoS: &one}
		if err := sink.Decode(text, &s); err != nil {
			return nil, err
		}
		s.Topic, s.QoS = cmp.Or(s.Topic, defaultTopic), cmp.Or(s.QoS, &one)
		if len(s.Topic) > maxTopic || !utf8.ValidString(s.Topic) || strings.ContainsAny(s.Topic, "+#\x00") {
			return nil, errors.New("settings: topic is too long, or has + or # or NUL")
		}
		if *s.QoS > 2 {
			return nil, fmt.Errorf("settings: qos is %d, want 0, 1 or 2", *s.QoS)
		}
		out := &publisher{settings: s, dialer: net.Dialer{Timeout: sink.DefaultTimeout, Control: guard.Control}, turn: make(chan struct{}, 1)}
		out.options = mqtt.NewClientOptions().AddBroker(target).SetClientID(cmp.Or(s.ClientID, "holter-"+rand.Text()[:12])).
			SetUsername(s.Username).SetTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}).
			SetConnectTimeout(sink.DefaultTimeout).SetAutoReconnect(false).SetConnectRetry(false).
			SetOrderMatters(false).SetMessageChannelDepth(0)
		return out, nil
	}
}

func overTLS(broker *url.URL) bool {
	return slices.Contains([]string{"tls", "ssl", "mqtts"}, broker.Scheme)
}

// dial connects to the broker. The library itself would use the proxy of the environment, and for TLS
// a dialer of its own; the guard sees neither.
func (p *publisher) dial(ctx context.Context, broker *url.URL) (net.Conn, error) {
	if overTLS(broker) {
		secure := tls.Dialer{NetDialer: &p.dialer, Config: p.options.TLSConfig}
		return secure.DialContext(ctx, "tcp", broker.Host)
	}
	return p.dialer.DialContext(ctx, "tcp", broker.Host)
}

// Deliver implements [sink.Sink]. It publishes messages and waits for the broker's acks.
func (p *publisher) Deliver(ctx context.Context, messages []sink.Message) []sink.Result {
	client, err := p.connected(ctx)
	if err != nil {
		return sink.Repeat(len(messages), sink.Result{Err: err})
	}
	tokens := make([]mqtt.Token, len(messages))
	for i := range messages {
		if ctx.Err() == nil { // Publish blocks while the broker reads nothing
			tokens[i] = client.Publish(p.topic(&messages[i]), *p.QoS, p.Retain, messages[i].Data)
		}
	}
	results := make([]sink.Result, len(messages))
	for i, token := range tokens {
		if token == nil {
			results[i].Err = late(ctx)
		} else {
			results[i].Err = waitFor(ctx, token)
		}
	}
	return results
}

// topic returns the topic of a message.
func (p *publisher) topic(m *sink.Message) string {
	kind, _ := m.Topic()
	key := strings.Map(func(c rune) rune {
		if strings.ContainsRune("+#", c) || c == utf8.RuneError || unicode.In(c, unicode.Cc, unicode.Noncharacter_Code_Point) { // MQTT 3.1.1, 1.5.3
			return '_'
		}
		return c
	}, cmp.Or(m.Key, "-"))
	return strings.NewReplacer("{key}", key, "{type}", kind).Replace(p.Topic)
}

// waitFor waits for the broker's ack.
func waitFor(ctx context.Context, token mqtt.Token) error {
	select {
	case <-token.Done():
		return token.Error()
	case <-ctx.Done():
		return late(ctx)
	}
}

func late(ctx context.Context) error { return sink.Late(ctx, "broker") }

// connected returns a connected client.
func (p *publisher) connected(ctx context.Context) (mqtt.Client, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, late(ctx)
	}
	defer func() { <-p.turn }()
	if p.client != nil && p.client.IsConnectionOpen() {
		return p.client, nil
	}
	p.disconnect()
	password, err := sink.Secret(p.Password)
	if err != nil {
		return nil, fmt.Errorf("password: %w", err)
	}
	options := *p.options
	options.SetPassword(password)
	client := mqtt.NewClient(options.SetCustomOpenConnectionFn(func(broker *url.URL, _ mqtt.ClientOptions) (net.Conn, error) {
		return p.dial(ctx, broker)
	}))
	if err := waitFor(ctx, client.Connect()); err != nil {
		client.Disconnect(0)
		return nil, err
	}
	p.client = client
	return client, nil
}

// quiesce is how long a connection may take to end.
const quiesce = 250 * time.Millisecond

// disconnect ends the connection. The caller holds turn.
func (p *publisher) disconnect() {
	if p.client != nil {
		p.client.Disconnect(uint(quiesce.Milliseconds()))
		p.client = nil
	}
}

// Close implements [sink.Sink]. It ends the connection.
func (p *publisher) Close() error {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	p.disconnect()
	return nil
}
