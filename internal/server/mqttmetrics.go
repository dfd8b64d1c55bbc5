package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

// mqttCollector shows the bridges and the broker inside the program to Prometheus. The broker's label bridge is config.ReportToBroker,
// which no bridge can be called.
type mqttCollector struct {
	bridges  []*mqttbridge.Bridge
	broker   *broker.Broker // nil if there is none
	rejected *prometheus.Desc
	ofBridge []mqttValue[mqttbridge.View]
	ofBroker []mqttValue[broker.Stats]
}

type mqttValue[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*T) float64
}

func newMQTTCollector(bridges []*mqttbridge.Bridge, b *broker.Broker) *mqttCollector {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("holter_mqtt_"+name, help, labels, nil)
	}
	c := &mqttCollector{
		bridges: bridges, broker: b,
		rejected: desc("rejected_total", "Messages, or clients, that were not taken.", "bridge", "reason"),
	}
	add := func(name, help string, kind prometheus.ValueType, of func(*mqttbridge.View) float64) {
		c.ofBridge = append(c.ofBridge, mqttValue[mqttbridge.View]{desc(name, help, "bridge"), kind, of})
	}
	add("messages_total", "Messages that came from the broker.", counter, func(v *mqttbridge.View) float64 { return float64(v.Messages) })
	add("retained_total", "Of them, those that the broker had kept: they are no heartbeats.", counter, func(v *mqttbridge.View) float64 { return float64(v.Retained) })
	add("beats_total", "Heartbeats that followed from messages.", counter, func(v *mqttbridge.View) float64 { return float64(v.Beats) })
	add("dropped_total", "Messages for which there was no room in the queue.", counter, func(v *mqttbridge.View) float64 { return float64(v.Dropped) })
	add("queue", "Messages that wait.", gauge, func(v *mqttbridge.View) float64 { return float64(v.Queue) })
	add("queue_limit", "Messages that may wait.", gauge, func(v *mqttbridge.View) float64 { return float64(v.QueueMax) })
	add("connected", "Whether the broker is connected.", gauge, func(v *mqttbridge.View) float64 { return truth(v.Connected) })
	add("listening", "Whether the listening clock moves.", gauge, func(v *mqttbridge.View) float64 { return truth(v.Listening) })
	add("watermark_message", "Whether the clock follows messages to itself: 1, or the broker's answers: 0.", gauge,
		func(v *mqttbridge.View) float64 { return truth(v.Watermark == "message") })
	c.addBroker()
	return c
}

// addBroker adds what is known of the broker inside the program.
func (c *mqttCollector) addBroker() {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	add := func(name, help string, kind prometheus.ValueType, of func(*broker.Stats) float64) {
		c.ofBroker = append(c.ofBroker, mqttValue[broker.Stats]{prometheus.NewDesc("holter_broker_"+name, help, nil, nil), kind, of})
	}
	add("clients", "Clients that are connected.", gauge, func(s *broker.Stats) float64 { return float64(s.Clients) })
	add("sessions", "Sessions, with those of clients that are away.", gauge, func(s *broker.Stats) float64 { return float64(s.Sessions) })
	add("subscriptions", "Subscriptions of clients.", gauge, func(s *broker.Stats) float64 { return float64(s.Subscriptions) })
	add("retained", "Messages of clients that are kept.", gauge, func(s *broker.Stats) float64 { return float64(s.Retained) })
	add("retained_bytes", "Their topics and payloads.", gauge, func(s *broker.Stats) float64 { return float64(s.RetainedBytes) })
	add("accepted_total", "Connections accepted.", counter, func(s *broker.Stats) float64 { return float64(s.Accepted) })
	add("accept_errors_total", "Accepts that failed.", counter, func(s *broker.Stats) float64 { return float64(s.AcceptErrors) })
	add("packets_total", "Packets of clients, each a heartbeat.", counter, func(s *broker.Stats) float64 { return float64(s.Packets) })
	add("published_total", "Messages that clients published.", counter, func(s *broker.Stats) float64 { return float64(s.Published) })
	add("dropped_total", "Messages that a subscriber did not get because it took too little.", counter, func(s *broker.Stats) float64 { return float64(s.Dropped) })
	add("retained_refused_total", "Messages that were delivered, but not kept, because too many are.", counter,
		func(s *broker.Stats) float64 { return float64(s.RetainedRefused) })
	add("subscriptions_refused_total", "Subscriptions refused because they were too many, or too long.", counter,
		func(s *broker.Stats) float64 { return float64(s.SubscriptionsRefused) })
	add("slow_readers_total", "Connections closed because they could not be written to any more.", counter, func(s *broker.Stats) float64 { return float64(s.Slow) })
	add("closed_total", "Connections closed after a verdict.", counter, func(s *broker.Stats) float64 { return float64(s.Closed) })
	add("panics_total", "Connections closed because they made the broker panic.", counter, func(s *broker.Stats) float64 { return float64(s.Panics) })
}

// truth is a boolean as Prometheus has it.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Describe implements prometheus.Collector.
func (c *mqttCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.rejected
	for _, v := range c.ofBridge {
		out <- v.desc
	}
	for _, v := range c.ofBroker {
		out <- v.desc
	}
}

// Collect implements prometheus.Collector.
func (c *mqttCollector) Collect(out chan<- prometheus.Metric) {
	for _, b := range c.bridges {
		v := b.View()
		c.rejections(out, v.Name, v.Rejected)
		for _, m := range c.ofBridge {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(&v), v.Name)
		}
	}
	if c.broker == nil {
		return
	}
	st := c.broker.Stats()
	c.rejections(out, config.ReportToBroker, st.Rejected)
	for _, m := range c.ofBroker {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(&st))
	}
}

func (c *mqttCollector) rejections(out chan<- prometheus.Metric, bridge string, counts map[string]uint64) {
	for reason, n := range counts {
		out <- prometheus.MustNewConstMetric(c.rejected, prometheus.CounterValue, float64(n), bridge, reason)
	}
}
