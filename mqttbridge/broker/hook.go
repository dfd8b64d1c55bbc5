package broker

import (
	"bytes"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// hook is what the protocol's implementation calls, for a client by the goroutine that serves it unless said otherwise.
type hook struct {
	mqtt.HookBase

	broker *Broker
}

// ID implements mqtt.Hook.
func (h *hook) ID() string { return "holter" }

// Provides implements mqtt.Hook.
func (h *hook) Provides(b byte) bool {
	return bytes.IndexByte([]byte{
		mqtt.OnConnect, mqtt.OnConnectAuthenticate, mqtt.OnSessionEstablished, mqtt.OnDisconnect, mqtt.OnACLCheck, mqtt.OnPacketRead,
		mqtt.OnPacketProcessed, mqtt.OnSubscribe, mqtt.OnSubscribed, mqtt.OnPublish, mqtt.OnPublishDropped, mqtt.OnRetainMessage,
		mqtt.OnRetainedExpired, mqtt.OnWill, mqtt.OnClientExpired,
	}, b) >= 0
}

// guard ends a client, not the process, when something panics.
func (h *hook) guard(cl *mqtt.Client) {
	if v := recover(); v != nil {
		h.broker.panicked(v)
		if cl != nil && !cl.Net.Inline {
			cl.Stop(errPanic)
		}
	}
}

// OnConnect implements mqtt.Hook.
func (h *hook) OnConnect(cl *mqtt.Client, pk packets.Packet) (err error) {
	err = errPanic
	defer h.guard(cl)
	c := connOf(cl)
	why, code := c.connect(cl, pk)
	if why == "" {
		return nil
	}
	c.refused = true
	h.broker.counts.reject(why)
	_ = h.broker.server.SendConnack(cl, code, false, nil)
	return code
}

// OnConnectAuthenticate implements mqtt.Hook; OnConnect has seen to it.
func (h *hook) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }

// OnSessionEstablished implements mqtt.Hook. The client has taken over from the one before.
func (h *hook) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	defer h.guard(cl)
	c := connOf(cl)
	c.release()
	c.release = nil
}

// OnDisconnect implements mqtt.Hook. What follows, up to the end of the connection, is not to mix with the beginning of another.
func (h *hook) OnDisconnect(cl *mqtt.Client, _ error, _ bool) {
	defer h.guard(cl)
	connOf(cl).takeTurn()
}

// OnPacketRead implements mqtt.Hook.
func (h *hook) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	defer h.guard(cl)
	c := connOf(cl)
	if c.admitted {
		return c.packet(pk), nil
	}
	if pk.Connect.WillFlag && len(pk.Connect.WillPayload) == 0 { // which the implementation refuses, and the protocol allows
		c.noWill, pk.Connect.WillPayload = true, []byte{0}
	}
	// Its way of keeping to the client's Receive Maximum can deadlock (Inflight.NextImmediate locks for reading twice).
	c.window = h.broker.config.MaxInflight
	if most := pk.Properties.ReceiveMaximum; most > 0 {
		c.window, pk.Properties.ReceiveMaximum = min(c.window, int(most)), 0
	}
	pk.Properties.TopicAliasMaximum = 0 // it would use an alias after the message that told of it was dropped
	return pk, nil
}

// OnPacketProcessed implements mqtt.Hook.
func (h *hook) OnPacketProcessed(cl *mqtt.Client, pk packets.Packet, _ error) {
	defer h.guard(cl)
	if pk.FixedHeader.Type == packets.Subscribe {
		connOf(cl).sendRetained()
	}
}

// OnACLCheck implements mqtt.Hook. Before a message is queued for a client it is called by whoever publishes it.
func (h *hook) OnACLCheck(cl *mqtt.Client, topic string, write bool) (allowed bool) {
	defer h.guard(cl)
	if write {
		if !h.broker.reserved(topic) {
			return true
		}
		h.broker.counts.reject(ACL)
		return cl.Properties.ProtocolVersion < 5 // an older client cannot be told; what it publishes is ignored
	}
	c := connOf(cl)
	if c == nil || c.subscribing.Load() || !c.full() && (c.window == h.broker.config.MaxInflight || cl.State.Inflight.Len() < c.window) {
		return true
	}
	h.broker.counts.dropped.Add(1)
	return false
}

// OnSubscribe implements mqtt.Hook.
func (h *hook) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	defer h.guard(cl)
	c := connOf(cl)
	c.subscribing.Store(true)
	c.asked = c.asked[:0]
	room := h.broker.config.MaxSubscriptions - cl.State.Subscriptions.Len()
	for i := range pk.Filters {
		sub := &pk.Filters[i]
		_, existed := cl.State.Subscriptions.Get(sub.Filter)
		if !existed {
			room--
		}
		if !bounded(sub.Filter) || room < 0 && !existed {
			h.broker.counts.subscriptionsRefused.Add(1)
			sub.Filter = "" // which is refused
		}
		c.asked = append(c.asked, wanted{sub: *sub, none: sub.RetainHandling == 2 || sub.RetainHandling == 1 && existed})
		sub.RetainHandling = 2 // retained messages are sent apart
	}
	return pk
}

// OnSubscribed implements mqtt.Hook.
func (h *hook) OnSubscribed(cl *mqtt.Client, _ packets.Packet, codes []byte) {
	defer h.guard(cl)
	c := connOf(cl)
	c.subscribing.Store(false)
	for i := range c.asked {
		if i >= len(codes) || codes[i] >= packets.ErrUnspecifiedError.Code || mqtt.IsSharedFilter(c.asked[i].sub.Filter) {
			c.asked[i].none = true
		}
	}
}

// OnPublish implements mqtt.Hook.
func (h *hook) OnPublish(cl *mqtt.Client, pk packets.Packet) (_ packets.Packet, err error) {
	defer h.guard(cl)
	if cl.Net.Inline {
		return pk, nil
	}
	h.broker.counts.published.Add(1)
	switch {
	case h.broker.reserved(pk.TopicName):
		return pk, packets.CodeSuccessIgnore
	case !validTopic(pk.TopicName):
		h.broker.counts.reject(Protocol)
		return pk, packets.CodeSuccessIgnore
	case pk.FixedHeader.Retain && !h.broker.mayRetain(pk.TopicName, len(pk.Payload)):
		pk.FixedHeader.Retain = false
	}
	return pk, nil
}

// OnPublishDropped implements mqtt.Hook. It is called by whoever published the message.
func (h *hook) OnPublishDropped(*mqtt.Client, packets.Packet) { h.broker.counts.dropped.Add(1) }

// OnWill implements mqtt.Hook. The topic was looked at when the client connected.
func (h *hook) OnWill(cl *mqtt.Client, will mqtt.Will) (mqtt.Will, error) {
	defer h.guard(cl)
	c := connOf(cl)
	if h.broker.closing.Load() {
		return mqtt.Will{}, nil // nobody subscribes to its topic
	}
	c.takeTurn()
	if now, ok := h.broker.server.Clients.Get(cl.ID); will.WillDelayInterval > 0 && ok && now != cl {
		// Its successor is there already, so a delayed will is not to be published (MQTT 5, 3.1.3.2.2), and nobody would take it back.
		cl.Properties.Will.WillDelayInterval = 0
		return mqtt.Will{}, nil
	}
	if c.noWill {
		will.Payload = nil
	}
	if will.Retain && !h.broker.mayRetain(will.TopicName, len(will.Payload)) {
		will.Retain = false
	}
	return will, nil
}

// OnRetainMessage implements mqtt.Hook. It is called by whoever published the message.
func (h *hook) OnRetainMessage(cl *mqtt.Client, pk packets.Packet, _ int64) {
	defer h.guard(nil)
	h.broker.retained.refresh(pk.TopicName, cl.Net.Inline, h.broker.server)
}

// OnRetainedExpired implements mqtt.Hook. It is called by a goroutine of the implementation's.
func (h *hook) OnRetainedExpired(topic string) {
	defer h.guard(nil)
	h.broker.retained.refresh(topic, false, h.broker.server)
}

// OnClientExpired implements mqtt.Hook. It is called by a goroutine of the implementation's, which forgets the subscriptions.
func (h *hook) OnClientExpired(cl *mqtt.Client) {
	defer h.guard(nil)
	cl.ClearInflights()
	h.broker.server.UnsubscribeClient(cl)
}
