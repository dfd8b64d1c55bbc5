package mqtt

// What clients have the broker hold is counted in Broker.held: messages that wait, each once, their
// places in queues, and sessions of clients that are away. Of a client that is connected counts what
// is more than guaranteed. Nobody may hold more than a share of what is free, so there is always
// something left for others (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998).

const (
	// guaranteed is how many bytes each connected client may have of each of these, whatever others
	// hold: messages that wait for it, subscriptions, ids of messages with QoS 2, and a will.
	guaranteed = 4 << 10
	// shares: a client may hold one in so many of the bytes that are free.
	shares = 32
	// forConnected: one in so many of all bytes is left to clients that are connected.
	forConnected = 4
)

// What things take in memory beside their bytes, roughly.
const (
	entryOverhead        = 96
	sessionOverhead      = 384
	willOverhead         = 128
	subscriptionOverhead = 192
	filterLevelOverhead  = 80
	receivedSize         = 16
)

// share returns how many bytes a client may hold of each kind beyond those that are guaranteed.
func (b *Broker) share(away bool) int {
	free := b.config.MaxHeldBytes - int(b.held.Load())
	if away {
		free -= b.config.MaxHeldBytes / forConnected
	}
	return max(0, free/shares)
}

// mayHold reports whether a client that is connected may hold so many bytes of a kind.
func (b *Broker) mayHold(n int) bool { return n <= guaranteed || n <= b.share(false) }

// mayLeave reports whether a session that takes so many bytes, without its queue, can be kept.
func (b *Broker) mayLeave(n int) bool {
	return b.away.Load() < int64(b.config.MaxSessions) && n <= b.share(true)
}

// hold counts an entry that stands in a queue now.
func (b *Broker) hold(e *entry) {
	n := entryOverhead
	if m := e.message; m != nil && m.holders.Add(1) == 1 {
		n += m.memory()
	}
	e.held = true
	b.held.Add(int64(n))
}

// release counts an entry no longer that was taken out of its queue.
func (b *Broker) release(e *entry) {
	if e.held {
		b.releaseMessage(e)
		b.held.Add(-entryOverhead)
	}
}

// releaseMessage counts the message of an entry no longer.
func (b *Broker) releaseMessage(e *entry) {
	if m := e.message; e.held && m != nil && m.holders.Add(-1) == 0 {
		b.held.Add(-int64(m.memory()))
	}
}

// holdAllLocked counts all entries of a queue whose client leaves.
func (s *session) holdAllLocked() {
	q := s.queue
	if q == nil {
		return
	}
	for _, entries := range [][]entry{q.inflight, q.qos0.all(), q.qos12.all()} {
		for i := range entries {
			if e := &entries[i]; !e.held {
				s.broker.hold(e)
			}
		}
	}
}

// excess returns how many of so many bytes count while the client is connected.
func excess(n int) int {
	if n > guaranteed {
		return n
	}
	return 0
}

// sizeAwayLocked returns what a session takes while its client is away, beside what counts anyway.
func (s *session) sizeAwayLocked(delayed *will) int {
	received := receivedSize * len(s.received)
	n := sessionOverhead + len(s.id) + len(s.user) + delayed.size() + received - excess(received)
	for _, sub := range s.filters.all() {
		if !sub.held {
			n += sub.size()
		}
	}
	return n
}

// holdWill counts the will of a client that is connected, or with -1 counts it no longer.
func (b *Broker) holdWill(w *will, n int) {
	if size := excess(w.size()); size != 0 {
		b.held.Add(int64(n * size))
	}
}

// countReceivedLocked counts the ids of messages with QoS 2, whose number was before.
func (s *session) countReceivedLocked(before int) {
	n := excess(receivedSize*len(s.received)) - excess(receivedSize*before)
	if n != 0 {
		s.broker.held.Add(int64(n))
	}
}
