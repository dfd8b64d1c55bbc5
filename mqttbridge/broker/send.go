package broker

import (
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// wanted are the retained messages for a new subscription.
type wanted struct {
	sub  packets.Subscription
	none bool
}

// maxWanted bounds the subscriptions whose retained messages wait to be sent to a client.
const maxWanted = 1024

// sendRetained begins to send the retained messages of the subscriptions that were made just now.
func (c *conn) sendRetained() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.asked {
		if !w.none && len(c.wanted) < maxWanted {
			c.wanted = append(c.wanted, w)
		}
	}
	c.asked = c.asked[:0]
	if !c.sending && len(c.wanted) > 0 && c.failed == nil {
		c.sending = true
		c.broker.tasks.Go(c.sendWanted)
	}
}

func (c *conn) sendWanted() {
	b := c.broker
	defer func() {
		if v := recover(); v != nil {
			b.panicked(v)
			c.client.Stop(errPanic)
		}
	}()
	for {
		c.mu.Lock()
		if len(c.wanted) == 0 || c.failed != nil {
			c.sending, c.wanted = false, nil
			c.mu.Unlock()
			return
		}
		w := c.wanted[0]
		c.wanted = c.wanted[1:]
		c.mu.Unlock()
		for _, topic := range b.retained.match(w.sub.Filter) {
			// What is kept by now: the client never gets an older message after one that it got as a subscriber.
			if pk, ok := b.server.Topics.Retained.Get(topic); ok && !c.sendOne(w.sub, pk) {
				break
			}
		}
	}
}

// sendOne sends a retained message as soon as there is room, and reports whether it did. As the implementation would, but that drops
// what does not fit into its queue.
func (c *conn) sendOne(sub packets.Subscription, pk packets.Packet) bool {
	cl := c.client
	out := pk.Copy(false)
	out.FixedHeader.Retain = true
	out.FixedHeader.Qos = min(pk.FixedHeader.Qos, sub.Qos)
	if sub.Identifier > 0 {
		out.Properties.SubscriptionIdentifier = []int{sub.Identifier}
	}
	if !c.waitRoom(out.FixedHeader.Qos > 0) {
		c.broker.counts.dropped.Add(1)
		return false
	}
	if out.FixedHeader.Qos > 0 {
		id, err := cl.NextPacketID()
		if err != nil {
			c.broker.counts.dropped.Add(1)
			return false
		}
		out.PacketID = uint16(id)
		if cl.State.Inflight.Set(out) {
			atomic.AddInt64(&c.broker.server.Info.Inflight, 1)
		}
	}
	return cl.WritePacket(out) == nil
}

// waitRoom waits until a message can be sent, and reports whether it can: not if the client takes or acknowledges nothing for too long.
func (c *conn) waitRoom(acknowledged bool) bool {
	cl := c.client
	deadline := time.NewTimer(c.broker.config.SendTimeout)
	defer deadline.Stop()
	look := time.NewTicker(10 * time.Millisecond) // acknowledgements tell nobody
	defer look.Stop()
	for !cl.Closed() {
		if !c.full() && (!acknowledged || cl.State.Inflight.Len() < c.window) {
			return true
		}
		select {
		case <-c.room:
		case <-look.C:
		case <-deadline.C:
			return false
		}
	}
	return false
}
