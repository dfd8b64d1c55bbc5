package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/gateway"
)

// gatewayCollector shows a gateway's Stats to Prometheus.
type gatewayCollector struct {
	gateway      *gateway.Gateway
	connections  *prometheus.Desc
	duplicateIDs *prometheus.Desc
	pace         *prometheus.Desc
	devices      *prometheus.Desc
	odd          *prometheus.Desc
	counters     []gatewayCounter
}

type gatewayCounter struct {
	desc *prometheus.Desc
	of   func(gateway.Stats) uint64
}

func newGatewayCollector(g *gateway.Gateway) *gatewayCollector {
	c := &gatewayCollector{
		gateway:      g,
		connections:  prometheus.NewDesc("holter_gateway_connections", "Connections that are open.", nil, nil),
		duplicateIDs: prometheus.NewDesc("holter_gateway_duplicate_ids", "Device ids that two connections claim at the moment, so that one of them is refused.", nil, nil),
		pace:         prometheus.NewDesc("holter_gateway_pace_factor", "Factor by which devices are told to send fewer heartbeats.", nil, nil),
		devices:      prometheus.NewDesc("holter_gateway_datagram_devices", "Devices that speak in datagrams.", nil, nil),
		odd:          prometheus.NewDesc("holter_gateway_odd_total", "What was unusual and tolerated in messages of devices.", []string{"protocol", "what"}, nil),
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
	add("bad_proxy_headers", "Connections from a network of proxies without a good PROXY header.", func(s gateway.Stats) uint64 { return s.BadProxyHeader })
	add("tls_handshakes", "TLS handshakes that were done.", func(s gateway.Stats) uint64 { return s.Handshakes })
	add("tls_resumed", "TLS handshakes that resumed a session.", func(s gateway.Stats) uint64 { return s.Resumed })
	add("tls_handshake_errors", "TLS handshakes that failed.", func(s gateway.Stats) uint64 { return s.HandshakeErrors })
	add("mistakes", "Error lines sent.", func(s gateway.Stats) uint64 { return s.Mistakes })
	add("broken", "Connections closed because they broke the protocol.", func(s gateway.Stats) uint64 { return s.Broken })
	add("closed", "Connections closed after a verdict, a takeover or a deadline.", func(s gateway.Stats) uint64 { return s.Closed })
	add("panics", "Connections closed because they made the gateway panic.", func(s gateway.Stats) uint64 { return s.Panics })
	add("messages", "Messages of devices.", func(s gateway.Stats) uint64 { return s.Messages })
	add("throttled", "Greetings not looked at because of wrong tokens from the same address, of devices whose token may be guessed.", func(s gateway.Stats) uint64 { return s.Throttled })
	add("duplicates", "Connections refused because two of them say that they are the same device.", func(s gateway.Stats) uint64 { return s.Duplicates })
	add("sent", "Messages that were written to devices for those who sent them.", func(s gateway.Stats) uint64 { return s.Sent })
	add("probes", "Devices that were asked for a sign of life.", func(s gateway.Stats) uint64 { return s.Probes })
	add("probes_left_out", "Devices that were not asked: there were too many, or they do not read.", func(s gateway.Stats) uint64 { return s.ProbesLeftOut })
	add("datagrams", "Datagrams that were received.", func(s gateway.Stats) uint64 { return s.Packets.Received })
	add("datagrams_garbage", "Datagrams that named no device.", func(s gateway.Stats) uint64 { return s.Packets.Garbage })
	add("datagrams_withheld", "Answers not given to senders who proved nothing: longer than the datagram, or too many errors.", func(s gateway.Stats) uint64 { return s.Packets.Withheld })
	add("datagrams_unsent", "Datagrams that the kernel did not take.", func(s gateway.Stats) uint64 { return s.Packets.Unsent })
	add("datagrams_dropped", "Datagrams that the kernel dropped because a socket was full.", func(s gateway.Stats) uint64 { return s.Packets.Dropped })
	return c
}

// Describe implements prometheus.Collector.
func (c *gatewayCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.connections
	out <- c.duplicateIDs
	out <- c.pace
	out <- c.devices
	out <- c.odd
	for _, m := range c.counters {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *gatewayCollector) Collect(out chan<- prometheus.Metric) {
	st := c.gateway.Stats()
	out <- prometheus.MustNewConstMetric(c.connections, prometheus.GaugeValue, float64(st.Connections))
	out <- prometheus.MustNewConstMetric(c.duplicateIDs, prometheus.GaugeValue, float64(st.DuplicateIDs))
	out <- prometheus.MustNewConstMetric(c.devices, prometheus.GaugeValue, float64(st.Packets.Devices))
	out <- prometheus.MustNewConstMetric(c.pace, prometheus.GaugeValue, st.PaceFactor)
	for o, n := range st.Odd {
		out <- prometheus.MustNewConstMetric(c.odd, prometheus.CounterValue, float64(n), o.Protocol, o.What)
	}
	for _, m := range c.counters {
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.of(st)))
	}
}
