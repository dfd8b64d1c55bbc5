package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqttbridge"
)

// defaultDiscovery is the default prefix of the topics for Home Assistant's discovery.
const defaultDiscovery = "homeassistant"

// ownTopics returns the prefixes of the topics that the report publishes to. Bridges ignore them:
// the report's own messages are no heartbeats.
func ownTopics(c *config.Config) []string {
	if c.Report.To == "" {
		return nil
	}
	own := []string{reportPrefix(c) + "/"}
	if prefix, ok := discoveryPrefix(c); ok {
		sensors, _, _ := strings.Cut(mqttreport.DiscoveryTopic(prefix, ""), "/connectivity/")
		own = append(own, sensors)
	}
	return own
}

// discoveryPrefix returns the prefix of the topics for Home Assistant's discovery. ok is false if the report publishes none.
func discoveryPrefix(c *config.Config) (prefix string, ok bool) {
	return cmp.Or(c.Report.DiscoveryPrefix, defaultDiscovery), c.Report.To != "" && c.Report.HomeAssistant
}

// reportPrefix returns the prefix of the topics of the report.
func reportPrefix(c *config.Config) string { return cmp.Or(c.Report.Prefix, "holter") }

// buildReport creates the reporter that publishes verdicts, if the configuration has one.
func (s *server) buildReport(bridges []mqttbridge.Config) error {
	c := &s.config.Report
	if c.To == "" {
		return nil
	}
	publisher, err := s.publisher(bridges)
	if err != nil {
		return fmt.Errorf("report to %s: %w", c.To, err)
	}
	s.reporter, err = mqttreport.New(mqttreport.Config{
		Registry: s.registry, Events: s.store, Publisher: publisher, Prefix: c.Prefix, HomeAssistant: c.HomeAssistant,
		DiscoveryPrefix: c.DiscoveryPrefix, Node: s.config.Node, Logger: s.log,
	})
	if err != nil {
		return fmt.Errorf("report to %s: %w", c.To, err)
	}
	s.edges = append(s.edges, orderly(publisher.Run), orderly(s.reporter.Run))
	return nil
}

// runningPublisher is a publisher that works while Run runs.
type runningPublisher interface {
	mqttreport.Publisher

	Run(ctx context.Context) error
}

// publisher returns the connection to the broker that verdicts are published to.
func (s *server) publisher(bridges []mqttbridge.Config) (runningPublisher, error) {
	c := &s.config.Report
	if c.To == config.ReportToBroker {
		return &inlinePublisher{broker: s.broker, prefix: reportPrefix(&s.config)}, nil
	}
	i := slices.IndexFunc(bridges, func(b mqttbridge.Config) bool { return b.Name == c.To })
	if i < 0 {
		return nil, fmt.Errorf("there is no bridge %q", c.To)
	}
	options, err := mqttbridge.Options(bridges[i])
	if err != nil {
		return nil, err
	}
	return mqttreport.NewPaho(mqttreport.PahoConfig{
		Options: options, Session: s.session("report/"+reportPrefix(&s.config), ""), Prefix: c.Prefix, MaxReconnect: bridges[i].ReconnectMax, Logger: s.log.With(slog.String("bridge", c.To)),
	})
}

// orderly returns run without the error that it returns when ctx ends.
func orderly(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := run(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	}
}

// inlinePublisher publishes to the embedded broker.
type inlinePublisher struct {
	broker *mqtt.Broker
	prefix string
}

// Run publishes that the reporter is online. It needs no goodbye, because the broker ends with it.
func (p *inlinePublisher) Run(context.Context) error {
	return p.broker.Publish(mqttreport.StatusTopic(p.prefix), []byte(mqttreport.Online), true)
}

// Connected implements mqttreport.Publisher.
func (*inlinePublisher) Connected(ctx context.Context) (<-chan struct{}, error) {
	return make(chan struct{}), ctx.Err()
}

// Publish implements mqttreport.Publisher.
func (p *inlinePublisher) Publish(_ context.Context, topic string, payload []byte, retain bool) error {
	return p.broker.Publish(topic, payload, retain)
}

// Retained implements mqttreport.Publisher.
func (p *inlinePublisher) Retained(_ context.Context, filter string) (map[string][]byte, error) {
	return p.broker.Retained(filter), nil
}
