package broker

import (
	"sync/atomic"
)

// Reason is why something of a client's was refused.
type Reason string

const (
	// ClientID: an id that is none, see liveness.ValidateID.
	ClientID Reason = "client_id"
	// Denied: a wrong or missing user name or password.
	Denied Reason = "auth"
	// Full: too many clients or devices.
	Full Reason = "full"
	// Busy: too many logins at a time, or events that cannot be stored.
	Busy Reason = "busy"
	// PacketTooLarge: a packet of more than Config.MaxPacket, or a CONNECT of more than 64 KiB.
	PacketTooLarge Reason = "packet_too_large"
	// ACL: a message or will to a topic that only the program publishes to.
	ACL Reason = "acl"
	// Protocol: what is not MQTT, or a topic that is too long, too deep or none.
	Protocol Reason = "protocol"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{ClientID, Denied, Full, Busy, PacketTooLarge, ACL, Protocol}
}

// counters are what Stats reports.
type counters struct {
	accepted, acceptErrors, warned        atomic.Uint64
	packets, published, dropped           atomic.Uint64
	retainedRefused, subscriptionsRefused atomic.Uint64
	slow, closed, panics                  atomic.Uint64
	rejected                              map[Reason]*atomic.Uint64 // not changed after init
}

func (c *counters) init() {
	c.rejected = make(map[Reason]*atomic.Uint64)
	for _, r := range Reasons() {
		c.rejected[r] = new(atomic.Uint64)
	}
}

func (c *counters) reject(r Reason) { c.rejected[r].Add(1) }

// Stats is a picture of a broker. Those fields count up from its start that have no other comment.
type Stats struct {
	Clients              int // that are connected now
	Sessions             int // with those of clients that are away
	Subscriptions        int // now
	Retained             int // messages kept for clients now, not those of the program
	RetainedBytes        int // their topics and payloads
	Accepted             uint64
	AcceptErrors         uint64 // failed accepts, out of descriptors among them
	Packets              uint64 // of clients that were let in, after their CONNECT
	Published            uint64 // messages by clients
	Dropped              uint64 // messages that a subscriber did not get because it took too little of what was sent to it
	RetainedRefused      uint64 // messages that were to be retained and were delivered only
	SubscriptionsRefused uint64 // because they were too many, or too long
	Slow                 uint64 // connections cut off because they could not be written to any more
	Closed               uint64 // connections closed because the device was judged
	Panics               uint64
	Rejected             map[string]uint64 // by Reason
}

// Stats returns a picture of the broker.
func (b *Broker) Stats() Stats {
	c := &b.counts
	st := Stats{
		Sessions:             b.server.Clients.Len(),
		Subscriptions:        int(atomic.LoadInt64(&b.server.Info.Subscriptions)),
		Accepted:             c.accepted.Load(),
		AcceptErrors:         c.acceptErrors.Load(),
		Packets:              c.packets.Load(),
		Published:            c.published.Load(),
		Dropped:              c.dropped.Load() + uint64(max(atomic.LoadInt64(&b.server.Info.InflightDropped), 0)),
		RetainedRefused:      c.retainedRefused.Load(),
		SubscriptionsRefused: c.subscriptionsRefused.Load(),
		Slow:                 c.slow.Load(),
		Closed:               c.closed.Load(),
		Panics:               c.panics.Load(),
		Rejected:             make(map[string]uint64),
	}
	st.Retained, st.RetainedBytes = b.retained.size()
	for reason, n := range c.rejected {
		st.Rejected[string(reason)] = n.Load()
	}
	st.Clients = int(atomic.LoadInt64(&b.server.Info.ClientsConnected))
	return st
}
