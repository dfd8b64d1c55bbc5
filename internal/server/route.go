package server

import (
	"cmp"

	"github.com/holter-iot/holter/internal/cluster/route"
	"github.com/holter-iot/holter/internal/metrics"
	"github.com/holter-iot/holter/mqtt"
)

// routes passes messages on to the brokers of other servers.
type routes interface{ Stats() route.Stats }

// routeConfig returns what a hub and a spoke have in common.
func (f *front) routeConfig() route.Config {
	most := cmp.Or(f.config.MQTT.MaxPacket, mqtt.DefaultMaxPacket)
	return route.Config{MaxBytes: max(route.DefaultMaxBytes, 2*most), Logger: f.log}
}

// buildHub has the judge's broker exchange messages with those of ears, if it is to.
func (s *server) buildHub() {
	if !s.config.MQTT.Routed || s.linkServer == nil {
		return
	}
	hub := route.NewHub(s.broker, s.routeConfig())
	hub.Register(s.linkServer)
	s.routes = hub
	s.edges = append(s.edges, hub.Run)
}

// buildSpoke has the ear's broker exchange messages with the judge's, if it is to.
func (e *ear) buildSpoke() (err error) {
	if e.config.MQTT.Routed && e.broker != nil {
		e.spoke, err = route.NewSpoke(e.broker, e.config.Node, e.routeConfig())
		e.routes = e.spoke
	}
	return err
}

// routeMetrics reports the messages that go between brokers.
func (f *front) routeMetrics(m metrics.Sample) {
	if f.routes == nil {
		return
	}
	m = m.Sub("route_")
	st := f.routes.Stats()
	m.Add("servers", "Other servers that MQTT messages are exchanged with now: the ears, or the judge.", float64(st.Brokers))
	m.Add("queued_bytes", "What waits for them, or is not acknowledged by them yet.", float64(st.QueuedBytes))
	m.Count("sent_total", "Messages that were sent to them, copies of retained ones among them.", st.Sent)
	m.Count("received_total", "Messages that came from them, copies of retained ones among them.", st.Received)
	m.Count("dropped_total", "Messages that a server did not get: too many waited for it, or it was gone for a minute.", st.Dropped)
}
