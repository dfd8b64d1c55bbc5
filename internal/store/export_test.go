package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/liveness/judgement"
)

// Exec runs a statement behind the store's back.
func (s *Store) Exec(ctx context.Context, query string, args ...any) error {
	return s.db.WriteShared(ctx, "test", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
}

// Heads returns the offset of each device's latest event.
func (s *Store) Heads() []uint64 {
	s.writing.Lock()
	defer s.writing.Unlock()
	return slices.Clone(s.heads)
}

// Scan scans the first row of a query.
func (s *Store) Scan(ctx context.Context, query string, dest ...any) error {
	return s.db.Read(ctx, "test", func(ctx context.Context, q sqldb.Reader) error { return q.QueryRowContext(ctx, query).Scan(dest...) })
}

// Ambiguous makes the next Append fail after its transaction was committed, as if the answer had been lost.
func (s *Store) Ambiguous(ctx context.Context, events []liveness.Event) error {
	s.writing.Lock()
	heads, sources, last := append([]uint64(nil), s.heads...), make(map[string]bool), s.last.Load()
	for name := range s.sources {
		sources[name] = true
	}
	s.names.mu.RLock()
	var names []nameRow
	for name, id := range s.names.ids {
		names = append(names, nameRow{id: id, name: name})
	}
	s.names.mu.RUnlock()
	s.writing.Unlock()
	held := &holding{Outbox: s.config.Outbox}
	if held.Outbox != nil {
		s.config.Outbox = held
	}
	kept := s.log
	s.log, _ = eventlog.New(1)
	s.log.Resume(last)
	if err := s.Append(ctx, events); err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.log, s.config.Outbox = kept, held.Outbox
	s.heads, s.sources = heads, sources
	s.last.Store(last)
	s.names.mu.Lock()
	s.names.ids, s.names.text, s.names.max = make(map[string]int64), make(map[int64]string), 0
	s.names.addLocked(names)
	s.names.mu.Unlock()
	s.attempt = newAttempt(events)
	s.attempt.follow = held.committed
	return nil
}

// holding is an outbox that is not told that a batch was committed.
type holding struct {
	Outbox

	committed func()
}

func (h *holding) Insert(ctx context.Context, tx sqldb.Tx, first uint64, events []liveness.Event) (_ func(), err error) {
	h.committed, err = h.Outbox.Insert(ctx, tx, first, events)
	return nil, err
}

// Prune removes what is too old or too much.
func (s *Store) Prune(ctx context.Context) error { return s.prune(ctx) }

// Trim drops events from memory up to those that it returned the last time.
func (s *Store) Trim(seen uint64) (latest uint64) { return s.trim(seen) }

// Cached returns the offset of the oldest event in memory.
func (s *Store) Cached() uint64 {
	oldest, _ := s.log.Bounds()
	return oldest
}

// Types returns the code of each type of event that there is.
func Types() map[liveness.Type]int64 {
	codes := make(map[liveness.Type]int64)
	for t := range liveness.Type(255) {
		if t.String() != "invalid" {
			codes[t] = typeCode(t)
		}
	}
	return codes
}

// The codec of pages.

// PageLen is how many devices a page has.
const PageLen = pageLen

// Page is a page of heartbeats.
type Page struct {
	Store   [16]byte
	Page    uint32
	Number  uint64
	Sources []string
	Heard   []keep.Heard
}

// EncodePage encodes a page.
func EncodePage(p Page) []byte {
	return appendPage(nil, &page{store: p.Store, page: p.Page, number: p.Number, heard: p.Heard}, p.Sources)
}

// DecodePage decodes a page.
func DecodePage(b []byte) (Page, error) {
	p, err := decodePage(b)
	if err != nil {
		return Page{}, err
	}
	return Page{p.store, p.page, p.number, p.sources, p.heard}, nil
}

// NewHeard packs a sign of life.
func NewHeard(source int, ticks uint64) keep.Heard { return heardOf(source, ticks) }

// PolicyRoundTrip writes a policy as text and reads it.
func PolicyRoundTrip(p liveness.Policy) (string, liveness.Policy, error) {
	text := policyText(p)
	back, err := parsePolicy(text)
	return text, back, err
}

// ChangesRoundTrip packs a flapping history and unpacks it.
func ChangesRoundTrip(changes []int64) ([]int64, error) { return unpackChanges(packChanges(changes)) }

// UnpackChanges unpacks a flapping history.
func UnpackChanges(b []byte) ([]int64, error) { return unpackChanges(b) }

// Seal appends the checksum to a page.
func Seal(b []byte) []byte {
	b = append([]byte(nil), b...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// Dump returns the rows of a query as text.
func (s *Store) Dump(ctx context.Context, query string) (lines []string, err error) {
	err = s.db.Read(ctx, "test", func(ctx context.Context, q sqldb.Reader) error {
		lines = nil
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			values, err := scanAny(rows, len(columns))
			lines = append(lines, fmt.Sprint(values...))
			return err
		}, query)
	})
	return lines, err
}

// Forget drops the events up to an offset from memory.
func (s *Store) Forget(through uint64) { s.log.Trim(through) }

// The codec of pages of gaps, and of habits.

// GapPage is a page of gaps.
type GapPage struct {
	Store      [16]byte
	Hour, Page int64
	Gaps       []judgement.Gap
}

// EncodeGapPage encodes a page of gaps, which it sorts.
func EncodeGapPage(p GapPage) []byte {
	return appendGapPage(nil, &gapPage{p.Store, p.Hour, p.Page, sortGaps(p.Gaps)})
}

// DecodeGapPage decodes a page of gaps.
func DecodeGapPage(b []byte) (GapPage, error) {
	p, err := decodeGapPage(b, newDecoder().reasons)
	if err != nil {
		return GapPage{}, err
	}
	return GapPage{p.store, p.hour, p.page, p.gaps}, nil
}

// DecodeHabits decodes a page of habits, and encodes it again.
func DecodeHabits(b []byte, id [16]byte, n int64) ([]byte, error) {
	page, err := decodeHabits(b, id, n)
	if err != nil {
		return nil, err
	}
	return encodeHabits(id, n, page), nil
}

// Tidy does what is due about gaps once an hour.
func (s *Store) Tidy(ctx context.Context, r *liveness.Registry) error { return s.tidy(ctx, r) }

// KeepGaps keeps gaps and breaks for the next checkpoint, as if they had been taken from a registry, all rows together no more than most
// gaps. It returns a function that makes them wait again, as if the answer of the checkpoint that wrote them had been lost.
func (s *Store) KeepGaps(gaps []judgement.Gap, breaks []judgement.Break, most int) (again func()) {
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	s.keepGaps(s.last.Load(), gaps, breaks)
	k := &s.checkpoint.gaps
	k.bound(most)
	rows, kept := slices.Clone(k.rows), slices.Clone(k.breaks)
	return func() {
		s.checkpoints.Lock()
		defer s.checkpoints.Unlock()
		k.rows, k.breaks = append(rows, k.rows...), append(kept, k.breaks...)
	}
}
