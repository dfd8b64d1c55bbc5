package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/gateway"
)

// gatewayCollector shows a gateway's Stats to Prometheus.
type gatewayCollector struct {
	gateway     *gateway.Gateway
	connections *prometheus.Desc
	counters    []gatewayCounter
}

type gatewayCounter struct {
	desc *prometheus.Desc
	of   func(gateway.Stats) uint64
}

func newGatewayCollector(g *gateway.Gateway) *gatewayCollector {
	c := &gatewayCollector{
		gateway:     g,
		connections: prometheus.NewDesc("holter_gateway_connections", "Connections that are open.", nil, nil),
	}
	add := func(name, help string, of func(gateway.Stats) uint64) {
		c.counters = append(c.counters, gatewayCounter{prometheus.NewDesc("holter_gateway_"+name+"_total", help, nil, nil), of})
	}
	add("accepted", "Connections accepted.", func(s gateway.Stats) uint64 { return s.Accepted })
	add("accept_errors", "Accepts that failed.", func(s gateway.Stats) uint64 { return s.AcceptErrors + s.EnrollErrors })
	add("refused_full", "Connections refused because there were too many.", func(s gateway.Stats) uint64 { return s.RefusedFull })
	add("refused_address", "Connections refused because their address had too many.", func(s gateway.Stats) uint64 { return s.RefusedAddress })
	add("unauthorized", "Greetings with a wrong or missing token.", func(s gateway.Stats) uint64 { return s.Unauthorized })
	add("handshake_timeouts", "Connections closed because they did not greet in time.", func(s gateway.Stats) uint64 { return s.HandshakeTimeouts })
	add("idle_timeouts", "Connections closed because they were idle.", func(s gateway.Stats) uint64 { return s.IdleTimeouts })
	add("slow_readers", "Connections closed because they left too much unread.", func(s gateway.Stats) uint64 { return s.SlowReaders })
	add("mistakes", "Error lines sent.", func(s gateway.Stats) uint64 { return s.Mistakes })
	add("broken", "Connections closed because they broke the protocol.", func(s gateway.Stats) uint64 { return s.Broken })
	add("closed", "Connections closed after a verdict, a takeover or a deadline.", func(s gateway.Stats) uint64 { return s.Closed })
	add("panics", "Connections closed because they made the gateway panic.", func(s gateway.Stats) uint64 { return s.Panics })
	add("messages", "Messages of devices.", func(s gateway.Stats) uint64 { return s.Messages })
	add("throttled", "Greetings not looked at because of wrong tokens from the same address.", func(s gateway.Stats) uint64 { return s.Throttled })
	add("duplicates", "Connections refused because two of them say that they are the same device.", func(s gateway.Stats) uint64 { return s.Duplicates })
	return c
}

// Describe implements prometheus.Collector.
func (c *gatewayCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.connections
	for _, m := range c.counters {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *gatewayCollector) Collect(out chan<- prometheus.Metric) {
	st := c.gateway.Stats()
	out <- prometheus.MustNewConstMetric(c.connections, prometheus.GaugeValue, float64(st.Connections))
	for _, m := range c.counters {
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.of(st)))
	}
}
