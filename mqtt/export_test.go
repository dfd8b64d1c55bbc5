package mqtt

import "context"

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
