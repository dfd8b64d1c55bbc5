package mqtt

import "sync/atomic"

// counters are what Stats reports.
type counters struct {
	connected                             atomic.Int64
	published, sent                       atomic.Uint64
	dropped, tooLarge, expired, denied    atomic.Uint64
	retainedRefused, subscriptionsRefused atomic.Uint64
	sessionsRefused, takenOver            atomic.Uint64
}

// Stats is a picture of a broker. Those fields count up from its start that have no other comment.
type Stats struct {
	Connected            int    // clients, now
	Sessions             int    // now, with those of clients that are away
	Subscriptions        int    // now
	Retained             int    // messages kept for clients now, not those of the program
	RetainedBytes        int    // that they take
	HeldBytes            int    // of Config.MaxHeldBytes, now
	Published            uint64 // messages by clients
	Sent                 uint64 // messages to clients
	Dropped              uint64 // copies of messages, because a queue was full, or the client may not read them any more
	TooLarge             uint64 // copies of messages, because they were larger than a client takes
	Expired              uint64 // copies of messages, before they were sent
	Denied               uint64 // messages and wills of clients that may not publish to their topic
	RetainedRefused      uint64 // messages that were to be retained and were delivered only
	SubscriptionsRefused uint64 // because there are too many, or the filter is too long
	SessionsRefused      uint64 // sessions that were not kept, because too many clients are away or too much is held
	TakenOver            uint64 // connections that lost their session to another one
}

// Stats returns a picture of the broker.
func (b *Broker) Stats() Stats {
	c := &b.counts
	st := Stats{
		Connected:            int(c.connected.Load()),
		Sessions:             b.sessions.len(),
		HeldBytes:            int(b.held.Load()),
		Subscriptions:        b.index.size() - int(b.remoteFilters.Load()),
		Published:            c.published.Load(),
		Sent:                 c.sent.Load(),
		Dropped:              c.dropped.Load(),
		TooLarge:             c.tooLarge.Load(),
		Expired:              c.expired.Load(),
		Denied:               c.denied.Load(),
		RetainedRefused:      c.retainedRefused.Load(),
		SubscriptionsRefused: c.subscriptionsRefused.Load(),
		SessionsRefused:      c.sessionsRefused.Load(),
		TakenOver:            c.takenOver.Load(),
	}
	st.Retained, st.RetainedBytes = b.retained.size()
	return st
}
