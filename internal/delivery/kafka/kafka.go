// Package kafka delivers to topics of Kafka and of brokers that speak its protocol.
//
// A message is delivered when all in-sync replicas have it. The key of its record is the ordering key,
// so that all events of a device are in one partition, in order. The producer is idempotent: the loss
// of an ack alone makes no second record. A second record, right after the first one with its key, is
// possible after a crash, or when a delivery runs out of time while brokers fail, since the client may
// give up a record that a broker has written.
package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// settings are the settings of an endpoint of kind kafka.
type settings struct {
	sink.Settings

	// SASL is the mechanism of Username and Password: plain, scram-sha-256 or scram-sha-512.
	// Default: plain.
	SASL     string `json:"sasl,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`

	TLS bool `json:"tls,omitempty"`
	// CA are the certificates, in PEM, of the authorities that the brokers' certificates must be from.
	// It implies TLS. Default: those that the machine trusts.
	CA string `json:"ca,omitempty"`
}

const (
	defaultPort = 9092
	maxTopic    = 249
	// maxBuffered is how many records may wait in memory. A delivery of more blocks.
	maxBuffered = 10_000
	// metadataAge is the minimum age at which the metadata of a topic is refreshed, and so the delay
	// before a new leader is found.
	metadataAge = 500 * time.Millisecond
)

// Kind returns the kind of sinks that produce to the brokers that the guard allows.
func Kind(guard *sink.Guard) sink.Kind {
	return func(target string, text json.RawMessage) (sink.Sink, error) {
		brokers, topic, err := parseTarget(target)
		if err != nil {
			return nil, fmt.Errorf("target: %w", err)
		}
		var s settings
		if err := sink.Decode(text, &s); err != nil {
			return nil, err
		}
		options, err := s.options(guard)
		if err == nil {
			options = append(options, kgo.SeedBrokers(brokers...))
			err = kgo.ValidateOpts(options...)
		}
		if err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
		return &producer{Settings: s.Settings, topic: topic, options: options, turn: make(chan struct{}, 1), sent: make(map[string]*record)}, nil
	}
}

// parseTarget returns the brokers' addresses and the topic of a target.
func parseTarget(target string) (brokers []string, topic string, err error) {
	rest, ok := strings.CutPrefix(target, "kafka://")
	list, topic, both := strings.Cut(rest, "/")
	if !ok || !both || len(target) > sink.MaxTarget {
		return nil, "", fmt.Errorf("%.200q is no topic of Kafka; want kafka://HOST:9092,HOST:9092/TOPIC", target)
	}
	if strings.Contains(list, "@") {
		return nil, "", errors.New("user and password belong into the settings")
	}
	strange := func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-._", c))
	}
	if topic == "" || topic == "." || topic == ".." || len(topic) > maxTopic || strings.ContainsFunc(topic, strange) {
		return nil, "", fmt.Errorf("%.100q cannot be the name of a topic; want letters, digits, dot, - and _, %d at most", topic, maxTopic)
	}
	brokers, err = sink.Addresses(list, defaultPort)
	return brokers, topic, err
}

// options returns the options of the client. The library's defaults are acks of all in-sync replicas,
// and an idempotent producer.
func (s *settings) options(guard *sink.Guard) ([]kgo.Opt, error) {
	config, err := sink.TLS(s.CA)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Control: guard.Control}
	dial := dialer.DialContext
	if s.TLS || s.CA != "" {
		dial = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext
	}
	options := []kgo.Opt{
		kgo.ClientID("holter"), kgo.Dialer(dial), kgo.MaxBufferedRecords(maxBuffered), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // the same as that of Kafka's own producers, so that topics can be joined
		kgo.UnknownTopicRetries(1), kgo.MetadataMinAge(metadataAge),
	}
	mechanism, err := s.mechanism()
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, err
}

// mechanism returns how to log in; nil for no login.
func (s *settings) mechanism() (sasl.Mechanism, error) {
	if s.Username == "" && s.Password == "" && s.SASL == "" {
		return nil, nil
	}
	if s.Username == "" || s.Password == "" {
		return nil, errors.New("want username and password, or none of username, password and sasl")
	}
	user, password := s.Username, s.Password
	scrammed := func(context.Context) (scram.Auth, error) { // for each connection
		pass, err := sink.Secret(password)
		return scram.Auth{User: user, Pass: pass}, err
	}
	switch s.SASL {
	case "", "plain":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			pass, err := sink.Secret(password)
			return plain.Auth{User: user, Pass: pass}, err
		}), nil
	case "scram-sha-256":
		return scram.Sha256(scrammed), nil
	case "scram-sha-512":
		return scram.Sha512(scrammed), nil
	}
	return nil, fmt.Errorf("sasl is %.50q, want plain, scram-sha-256 or scram-sha-512", s.SASL)
}

// recordOf returns the record of a message. That of an event is as of the Kafka protocol binding of
// CloudEvents 1.0, structured content mode:
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md
func recordOf(topic string, m *sink.Message) *kgo.Record {
	r := &kgo.Record{Topic: topic, Value: m.Data}
	if m.Key != "" {
		r.Key = []byte(m.Key)
	}
	header := func(name, value string) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	header("content-type", cmp.Or(m.ContentType, "application/json"))
	header("message-id", m.ID)
	if m.ContentType != cloudevent.ContentType {
		return r
	}
	var ev struct{ SpecVersion, ID, Source, Type, Subject, Time string }
	if json.Unmarshal(m.Data, &ev) != nil {
		return r
	}
	for _, h := range [][2]string{
		{"ce_specversion", ev.SpecVersion}, {"ce_id", ev.ID}, {"ce_source", ev.Source}, {"ce_type", ev.Type}, {"ce_subject", ev.Subject}, {"ce_time", ev.Time},
	} {
		header(h[0], h[1])
	}
	return r
}

// failure returns the result that an error of a record means; success for no error.
func failure(ctx context.Context, err error, topic string) sink.Result {
	switch {
	case err == nil:
		return sink.Result{}
	case tooLarge(err):
		return sink.Result{Err: fmt.Errorf("the message is larger than the topic allows: %w", err), Permanent: true}
	case errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTimestamp):
		return sink.Result{Err: fmt.Errorf("the broker does not accept this message: %w", err), Permanent: true}
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return sink.Result{Err: fmt.Errorf("there is no topic %s; make it: %w", topic, err)}
	case ctx.Err() != nil:
		return sink.Result{Err: late(ctx)}
	}
	return sink.Result{Err: err}
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

func late(ctx context.Context) error { return sink.Late(ctx, "brokers") }
