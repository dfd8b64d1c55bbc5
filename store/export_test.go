package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// SetPatience sets how long the database may take for a transaction.
func (s *Store) SetPatience(d time.Duration) { s.db().patience = d }

// Exec runs a statement on the writer's connection, behind the store's back.
func (s *Store) Exec(ctx context.Context, query string, args ...any) error {
	_, err := s.db().write.DB.ExecContext(ctx, query, args...)
	return err
}

// QueryRow runs a query.
func (s *Store) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return s.db().read.DB.QueryRowContext(ctx, query, args...)
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
		names = append(names, nameRow{ID: id, Name: name})
	}
	s.names.mu.RUnlock()
	s.writing.Unlock()
	kept := s.log
	s.log, _ = eventlog.New(1)
	s.log.Resume(last)
	if err := s.Append(ctx, events); err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.log = kept
	s.heads, s.sources = heads, sources
	s.last.Store(last)
	s.names.mu.Lock()
	s.names.ids, s.names.text, s.names.max = make(map[string]int64), make(map[int64]string), 0
	s.names.addLocked(names)
	s.names.mu.Unlock()
	s.attempt = newAttempt(events)
	return nil
}

// SetWall sets what reads the wall clock.
func (s *Store) SetWall(wall func() time.Time) { s.wall = wall }

// Prune removes what is too old or too much.
func (s *Store) Prune(ctx context.Context) error { return s.prune(ctx) }

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
	Heard   []liveness.Heard
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
func NewHeard(source int, ticks uint64) liveness.Heard { return heardOf(source, ticks) }

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

// CleanText makes text that any database takes.
func CleanText(text string) string { return cleanText(text) }

// Seal appends the checksum to a page.
func Seal(b []byte) []byte {
	b = append([]byte(nil), b...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// CheckLock makes sure that the lock is held.
func (s *Store) CheckLock(ctx context.Context) error { return s.lock.check(ctx) }

// Mount opens the database once more, as an Open does that has taken it over, and closes it.
func (s *Store) Mount(ctx context.Context) error {
	d, err := openDatabase(s.backend, patience)
	if err != nil {
		return err
	}
	fence, _, _ := s.identity()
	return errors.Join(d.mount(ctx, fence), d.close())
}

// ReleaseLock lets go of the lock, as if it had been lost, and Close had nothing to do with it.
func (s *Store) ReleaseLock() error {
	s.state.Lock()
	defer s.state.Unlock()
	l := s.lock
	s.lock = noLock{}
	return l.release()
}

type noLock struct{}

func (noLock) check(context.Context) error { return nil }

func (noLock) release() error { return nil }

// Begin runs a statement in a transaction, which done commits.
func (s *Store) Begin(ctx context.Context, query string) (done func() error, err error) {
	tx, err := s.db().write.DB.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, query)
	return tx.Commit, err
}

// SteadyClock is the clock that tells how old things are.
type SteadyClock struct{ clock steadyClock }

// NewSteadyClock returns one that goes on from an instant.
func NewSteadyClock(at, wall, now time.Time) *SteadyClock {
	c := &SteadyClock{}
	c.clock.begin(at, wall, now)
	return c
}

// Look moves it.
func (c *SteadyClock) Look(wall, now time.Time) (shown, old time.Time) {
	return c.clock.look(wall.Round(0), now)
}
