package store

import (
	"context"
)

const (
	// sizeStep is how many events one query sums up.
	sizeStep = 50_000
	// sizeMost is how many events are summed up between two checkpoints: more than can be appended meanwhile.
	sizeMost = 1_000_000
)

// Bytes that an event takes beside its texts, with its place in the index and what a page has free: an upper
// bound of what was measured, with times, offsets and numbers as large as they are after years.
const (
	eventBytesInFile   = 116
	eventBytesOnServer = 296

	// Few events with long texts go into a page, and the rest of the page is of no use.
	longText        = 1000
	longBytesInFile = 3000
	longBytesServer = 1000
)

// eventSize knows how many bytes the events take. It is part of the checkpointer. The databases cannot say
// that at once: a file would have to be read as a whole, and the statistics of a server are old. So the texts
// are summed up, those that are kept at the start of a process little by little.
type eventSize struct {
	from, next uint64 // the texts of the events from from on, before next, are in texts
	texts      int64  // with what long ones waste
}

// size sums up the texts of events that are new. Call it with checkpoints held.
func (s *Store) size(ctx context.Context) error {
	z := &s.checkpoint.size
	oldest, latest := s.Bounds()
	if z.next == 0 {
		z.from, z.next = oldest, oldest
	}
	for until := z.next + sizeMost; z.next <= latest && z.next < until && ctx.Err() == nil; {
		end := min(z.next+sizeStep, latest+1)
		texts, err := s.textBytes(ctx, z.next, end)
		if err != nil {
			return err
		}
		z.texts, z.next = z.texts+texts, end
	}
	s.record.eventsAre(s.eventBytes())
	return nil
}

// eventBytes returns how many bytes the events take that were summed up.
func (s *Store) eventBytes() int64 {
	z := &s.checkpoint.size
	each := int64(eventBytesOnServer)
	if s.db.InFile() {
		each = eventBytesInFile
	}
	return z.texts + each*int64(z.next-z.from)
}

// textBytes returns how many bytes the texts of a range of events take.
func (s *Store) textBytes(ctx context.Context, from, end uint64) (sum int64, err error) {
	const length = "OCTET_LENGTH(subject) + OCTET_LENGTH(message)"
	waste := longBytesServer
	if s.db.InFile() {
		waste = longBytesInFile
	}
	err = s.db.ReadRow(ctx, "ask for the size of events", []any{&sum},
		"SELECT COALESCE(SUM("+length+" + CASE WHEN "+length+" > ? THEN ? ELSE 0 END), 0) FROM events WHERE pos >= ? AND pos < ?", longText, waste, from, end)
	return sum, err
}

// tooLarge returns the offset before which there are more events than a bound of bytes allows, on average.
func (s *Store) tooLarge(most int64) uint64 {
	z := &s.checkpoint.size
	excess, all := s.eventBytes()-most, s.eventBytes()
	if excess <= 0 {
		return 0
	}
	count := float64(z.next-z.from) * float64(excess) / float64(all)
	return z.from + uint64(count) + 1
}

// deleted notes that the events before an offset, with so many bytes of texts, are gone.
func (z *eventSize) deleted(to uint64, texts int64) {
	if to > z.from {
		z.from, z.texts = to, z.texts-texts
	}
	z.next = max(z.next, to)
}
