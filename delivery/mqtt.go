package delivery

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
	"unicode/utf8"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// mqttSettings are the settings of an endpoint of kind mqtt.
type mqttSettings struct {
	Common

	// Topic is where to publish; {key} stands for the ordering key, the device's id of an event, and {type} for its type, or job.
	// Default: holter/{type}/{key}.
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

// mqttSink is a sink that publishes to an MQTT 3.1.1 broker. It connects with the first delivery, and anew after the connection was lost.
type mqttSink struct {
	settings mqttSettings
	qos      byte
	options  *mqtt.ClientOptions
	dialer   net.Dialer
	turn     chan struct{} // capacity 1: held while connecting; never closed

	client mqtt.Client // guarded by turn; nil before the first delivery
}

// mqttKind makes what publishes to brokers that the guard lets pass.
func mqttKind(guard *Guard) Kind {
	return func(target string, settings json.RawMessage) (Sink, error) {
		u, err := url.Parse(target)
		if err != nil || !slices.Contains([]string{"tcp", "mqtt"}, u.Scheme) && !overTLS(u) || u.Hostname() == "" || u.User != nil || len(target) > maxURL {
			return nil, fmt.Errorf("target: %.200q is no MQTT broker; want tcp://HOST:1883 or tls://HOST:8883, and user and password in the settings", target)
		}
		var s mqttSettings
		if err := DecodeSettings(settings, &s); err != nil {
			return nil, err
		}
		s.Topic = cmp.Or(s.Topic, defaultTopic)
		if len(s.Topic) > maxTopic || !utf8.ValidString(s.Topic) || strings.ContainsAny(s.Topic, "+#\x00") {
			return nil, errors.New("settings: topic is too long, or has + or # or NUL")
		}
		out := &mqttSink{settings: s, qos: 1, dialer: net.Dialer{Timeout: defaultTimeout, Control: guard.Control}, turn: make(chan struct{}, 1)}
		if s.QoS != nil {
			out.qos = *s.QoS
		}
		if out.qos > 2 {
			return nil, fmt.Errorf("settings: qos is %d, want 0, 1 or 2", out.qos)
		}
		out.options = mqtt.NewClientOptions().AddBroker(target).SetClientID(cmp.Or(s.ClientID, "holter-"+rand.Text()[:12])).
			SetUsername(s.Username).SetPassword(s.Password).SetTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}).
			SetConnectTimeout(defaultTimeout).SetAutoReconnect(false).SetConnectRetry(false).
			SetOrderMatters(false).SetMessageChannelDepth(0)
		return out, nil
	}
}

func overTLS(broker *url.URL) bool {
	return slices.Contains([]string{"tls", "ssl", "mqtts"}, broker.Scheme)
}

// dial connects to the broker itself. The library would ask the proxy of the environment, and for TLS with a dialer of its own; both go
// where the guard does not look.
func (s *mqttSink) dial(ctx context.Context, broker *url.URL) (net.Conn, error) {
	if overTLS(broker) {
		secure := tls.Dialer{NetDialer: &s.dialer, Config: s.options.TLSConfig}
		return secure.DialContext(ctx, "tcp", broker.Host)
	}
	return s.dialer.DialContext(ctx, "tcp", broker.Host)
}

// Deliver publishes messages and waits for the broker's answers.
func (s *mqttSink) Deliver(ctx context.Context, messages []Message) []Result {
	client, err := s.connected(ctx)
	if err != nil {
		return all(len(messages), Result{Err: err})
	}
	tokens := make([]mqtt.Token, len(messages))
	for i := range messages {
		if ctx.Err() == nil { // a broker that takes no bytes holds up who publishes
			tokens[i] = client.Publish(s.topic(&messages[i]), s.qos, s.settings.Retain, messages[i].Data)
		}
	}
	results := make([]Result, len(messages))
	for i, token := range tokens {
		if token == nil {
			results[i].Err = late(ctx)
		} else {
			results[i].Err = waitFor(ctx, token)
		}
	}
	return results
}

// topic returns where to publish a message.
func (s *mqttSink) topic(m *Message) string {
	kind := "job"
	if m.Event != nil {
		kind = m.Event.Type.String()
	}
	key := strings.Map(func(c rune) rune {
		if strings.ContainsRune("+#\x00", c) || c == utf8.RuneError {
			return '_'
		}
		return c
	}, cmp.Or(m.Key, "-"))
	return strings.NewReplacer("{key}", key, "{type}", kind).Replace(s.settings.Topic)
}

// waitFor waits for the broker's answer.
func waitFor(ctx context.Context, token mqtt.Token) error {
	select {
	case <-token.Done():
		return token.Error()
	case <-ctx.Done():
		return late(ctx)
	}
}

// late says that the time is up.
func late(ctx context.Context) error {
	return fmt.Errorf("the broker did not answer in time: %w", ctx.Err())
}

// connected returns a client that is connected.
func (s *mqttSink) connected(ctx context.Context) (mqtt.Client, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, late(ctx)
	}
	defer func() { <-s.turn }()
	if s.client != nil && s.client.IsConnectionOpen() {
		return s.client, nil
	}
	s.disconnect()
	options := *s.options
	client := mqtt.NewClient(options.SetCustomOpenConnectionFn(func(broker *url.URL, _ mqtt.ClientOptions) (net.Conn, error) {
		return s.dial(ctx, broker)
	}))
	if err := waitFor(ctx, client.Connect()); err != nil {
		client.Disconnect(0)
		return nil, err
	}
	s.client = client
	return client, nil
}

// quiesce is how long a connection has to end.
const quiesce = 250 * time.Millisecond

// disconnect ends the connection. Call it with turn held.
func (s *mqttSink) disconnect() {
	if s.client != nil {
		s.client.Disconnect(uint(quiesce.Milliseconds()))
		s.client = nil
	}
}

// Close ends the connection.
func (s *mqttSink) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.disconnect()
	return nil
}
