// Package kafka delivers to topics of Kafka and what speaks its protocol. A message has arrived when all replicas that are in sync have it;
// its key is the ordering key, so that all of a device is in one partition, in order. The producer is idempotent: an answer that is lost
// makes no second record by itself. There can be one, right behind the first of its key, after a crash, or when a delivery runs out of
// time while brokers fail, so that the client gives up a record that one of them has.
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

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/internal/peer"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// settings are the settings of an endpoint of kind kafka.
type settings struct {
	delivery.Common

	// SASL is how Username and Password are told: plain, scram-sha-256 or scram-sha-512. Default: plain.
	SASL     string `json:"sasl,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`

	TLS bool `json:"tls,omitempty"`
	// CA are the certificates that those of the brokers are trusted by, in PEM; with it there is TLS. Default: those of the machine.
	CA string `json:"ca,omitempty"`
}

const (
	defaultPort = 9092
	maxTarget   = 2048
	maxTopic    = 249
	// maxBuffered is how many records wait in memory; who has more waits.
	maxBuffered = 10_000
	// metadataAge is how long what brokers say of a topic counts at least: a new leader is found that late.
	metadataAge = 500 * time.Millisecond
)

// Kind makes what produces to brokers that the guard lets pass.
func Kind(guard *delivery.Guard) delivery.Kind {
	return func(target string, text json.RawMessage) (delivery.Sink, error) {
		brokers, topic, err := parseTarget(target)
		if err != nil {
			return nil, fmt.Errorf("target: %w", err)
		}
		var s settings
		if err := delivery.DecodeSettings(text, &s); err != nil {
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
		return newSink(topic, options), nil
	}
}

// parseTarget returns the addresses of brokers, and a topic.
func parseTarget(target string) (brokers []string, topic string, err error) {
	rest, ok := strings.CutPrefix(target, "kafka://")
	list, topic, both := strings.Cut(rest, "/")
	if !ok || !both || len(target) > maxTarget {
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
	brokers, err = peer.Addresses(list, defaultPort)
	return brokers, topic, err
}

// options returns how to produce. All replicas in sync answer, and the producer is idempotent, as is the library's default.
func (s *settings) options(guard *delivery.Guard) ([]kgo.Opt, error) {
	config, err := peer.TLS(s.CA)
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
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // as Kafka's own producers: whoever joins topics finds equal keys together
		kgo.UnknownTopicRetries(1), kgo.MetadataMinAge(metadataAge),
	}
	mechanism, err := s.mechanism()
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, err
}

// mechanism returns how to log in, nil for not at all.
func (s *settings) mechanism() (sasl.Mechanism, error) {
	if s.Username == "" && s.Password == "" && s.SASL == "" {
		return nil, nil
	}
	if s.Username == "" || s.Password == "" {
		return nil, errors.New("want username and password, or none of username, password and sasl")
	}
	switch s.SASL {
	case "", "plain":
		return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("sasl is %.50q, want plain, scram-sha-256 or scram-sha-512", s.SASL)
}

// recordOf returns a message as it is produced: by the Kafka protocol binding of CloudEvents 1.0, structured content mode, for an event.
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md
func recordOf(topic string, m *delivery.Message) *kgo.Record {
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

// failure says what an error of a record means.
func failure(ctx context.Context, err error, topic string) delivery.Result {
	switch {
	case err == nil:
		return delivery.Result{}
	case tooLarge(err):
		return delivery.Result{Err: fmt.Errorf("the message is larger than the topic allows: %w", err), Permanent: true}
	case errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTimestamp):
		return delivery.Result{Err: fmt.Errorf("the broker does not take this message: %w", err), Permanent: true}
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return delivery.Result{Err: fmt.Errorf("there is no topic %s; make it: %w", topic, err)}
	case ctx.Err() != nil:
		return delivery.Result{Err: late(ctx)}
	}
	return delivery.Result{Err: err}
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// late says that the time is up.
func late(ctx context.Context) error {
	return fmt.Errorf("the brokers did not answer in time: %w", ctx.Err())
}
