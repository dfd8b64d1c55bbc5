package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	mqttcodec "github.com/holter-iot/holter/gateway/codec/mqtt"
	"github.com/holter-iot/holter/gateway/codec/websocket"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/metrics"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/access"
)

// speaksMQTT reports whether a device port speaks MQTT.
func speaksMQTT(l config.Listener) bool { return slices.Contains(l.Protocols, config.ProtocolMQTT) }

// onlyMQTT reports whether a device port speaks nothing else.
func onlyMQTT(l config.Listener) bool { return len(l.Protocols) == 1 && speaksMQTT(l) }

// buildBroker creates the MQTT broker, if a device port speaks that, or clients of ears use it.
func (f *front) buildBroker() (err error) {
	c := &f.config.MQTT
	if !c.Routed && !slices.ContainsFunc(f.config.Listen, speaksMQTT) {
		return nil
	}
	cfg := mqtt.Config{
		MaxPacket: c.MaxPacket, SessionExpiry: c.SessionExpiry, MaxQueue: c.MaxQueue,
		MaxRetained: c.MaxRetained, MaxRetainedBytes: c.MaxRetainedBytes, Reserved: f.reserved(), Store: f.records, Logger: f.log,
	}
	if len(f.config.Listen) > 0 { // else there is nobody who knows what a client may do
		cfg.Renew = f.renew
	}
	f.broker, err = mqtt.New(cfg)
	return err
}

// admitClients has the gateway serve the broker's clients, if there is one.
func (f *front) admitClients(g gateway.Guard) error {
	if f.broker == nil {
		return nil
	}
	c := &f.config.MQTT
	var token func(id string, token []byte) bool
	if g != gateway.Password("") {
		token = func(id string, token []byte) bool { return g.Admit(id, token) && !g.Admit(id, nil) }
	}
	who, err := access.New(access.Config{
		Users: c.Users, Rules: c.Rules, Anonymous: anonymous(c.Anonymous), Token: token, Logger: f.log,
	})
	if err != nil {
		return BadConfig(fmt.Errorf("mqtt: %w; \"holter password NAME\" makes the lines of a users file", err))
	}
	f.mqtt = &mqttcodec.Protocol{Broker: f.broker, Access: who}
	f.who = who
	f.edges = append(f.edges, who.Run)
	return nil
}

// renew returns what a client of the broker may do now, see [mqtt.Config].
func (f *front) renew(g mqtt.Grant, user, clientID string) mqtt.Grant {
	before, ok := g.(*access.Grant)
	if !ok {
		before = f.who.Recall(user)
	}
	now, err := f.who.Renew(before, clientID)
	if err != nil {
		return nil
	}
	return now
}

// runBroker runs the broker, if there is one, until ctx is done, which is after the gateway has ended:
// it stores what is not stored yet.
func (f *front) runBroker(ctx context.Context) error {
	if f.broker == nil {
		return nil
	}
	return f.broker.Run(ctx)
}

// websocket returns what carries MQTT for browsers, at every port that speaks MQTT.
func (f *front) websocket() codec.Protocol {
	return &websocket.Protocol{Inner: f.mqtt, Path: "/mqtt", Subprotocols: []string{"mqtt", "mqttv3.1"}, Origins: func() []string { return f.live.Load().Origins }}
}

func anonymous(a config.Anonymous) access.Anonymous {
	switch a {
	case config.AnonymousAnyone:
		return access.Anyone
	case config.AnonymousNever:
		return access.Never
	default:
		return access.Loopback
	}
}

// brokerMetrics reports the MQTT broker.
func (f *front) brokerMetrics(m metrics.Sample) {
	if f.broker == nil {
		return
	}
	m = m.Sub("broker_")
	st := f.broker.Stats()
	m.Add("clients", "Clients that are connected.", float64(st.Connected))
	m.Add("sessions", "Sessions, with those of clients that are away.", float64(st.Sessions))
	m.Add("subscriptions", "Subscriptions of clients.", float64(st.Subscriptions))
	m.Add("retained", "Messages of clients that are kept.", float64(st.Retained))
	m.Add("retained_bytes", "What these take.", float64(st.RetainedBytes))
	m.Add("held_bytes", "What messages that wait, clients that are away, and large wills and subscriptions take.", float64(st.HeldBytes))
	m.Count("published_total", "Messages that clients published.", st.Published)
	m.Count("sent_total", "Messages that were sent to clients.", st.Sent)
	m.Count("dropped_total", "Messages that a client did not get because too much waited for it, or for all, or it may not read them any more.", st.Dropped)
	m.Count("too_large_total", "Messages that a client did not get because it takes none of that size.", st.TooLarge)
	m.Count("expired_total", "Messages that a client did not get before they expired.", st.Expired)
	m.Count("denied_total", "Messages and wills of clients that may not publish to their topic.", st.Denied)
	m.Count("retained_refused_total", "Messages that were delivered, but not kept, because too many are.", st.RetainedRefused)
	m.Count("subscriptions_refused_total", "Subscriptions refused because they were too many, or too long.", st.SubscriptionsRefused)
	m.Count("sessions_refused_total", "Sessions that were not kept, because too many clients are away or too much is held for all.", st.SessionsRefused)
	m.Count("taken_over_total", "Connections that lost their session to another one.", st.TakenOver)
	f.routeMetrics(m)
}

// reserved returns the prefix of the topics that only the program may publish to; "-" if there is none.
func (f *front) reserved() string {
	if f.config.Report.To == config.ReportToBroker {
		return reportPrefix(&f.config) + "/"
	}
	return "-"
}
