package mqtt

import (
	"context"
	"slices"
)

// Commit commits what waits for the store, as Run does.
func (b *Broker) Commit(ctx context.Context) { b.journal.commit(ctx) }

// FillJournal has the journal be full, or no longer.
func (b *Broker) FillJournal(full bool) {
	b.journal.mu.Lock()
	defer b.journal.mu.Unlock()
	b.journal.before = 0
	if full {
		b.journal.before = maxJournal + 1
	}
}

// Held counts what clients have the broker hold, thing by thing.
func (b *Broker) Held() int {
	n := 0
	messages := make(map[*message]bool)
	for i := range b.sessions.shards {
		for _, s := range b.sessions.shards[i].byID {
			n += s.heldNow(messages)
		}
	}
	for m := range messages {
		n += m.memory()
	}
	return n
}

// heldNow counts what a session holds but for messages, and adds those to a set.
func (s *session) heldNow(messages map[*message]bool) int {
	n, subs, away := 0, 0, s.conn == nil
	for _, sub := range s.filters.all() {
		if subs++; sub.held || away {
			n += sub.size()
		}
	}
	if received := receivedSize * len(s.received); away || received > guaranteed {
		n += received
	}
	switch {
	case away:
		n += sessionOverhead + len(s.id) + len(s.user) + s.away.will.size()
	case s.conn.will.size() > guaranteed:
		n += s.conn.will.size()
	}
	if s.queue == nil {
		return n
	}
	free := 0
	for _, e := range slices.Concat(s.queue.inflight, s.queue.qos0.all(), s.queue.qos12.all()) {
		if e.held {
			n += entryOverhead
		}
		switch {
		case e.message == nil:
		case e.held:
			messages[e.message] = true
		default:
			free += e.message.size()
		}
	}
	if away && free > 0 || free > guaranteed {
		panic("a message is not counted")
	}
	return n
}
