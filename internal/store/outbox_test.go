package store_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// eachDatabase runs a test with an open store on each kind of database.
func eachDatabase(t *testing.T, cfg config, test func(t *testing.T, s *store.Store)) {
	t.Helper()
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			cfg := cfg
			cfg.URL = db.URL(t)
			s, _ := open(t, cfg)
			test(t, s)
		})
	}
}

// outbox needs the events from one on, and notes what it is told.
type outbox struct {
	needed    uint64
	released  []uint64
	err       error
	inserted  []uint64 // offsets
	committed []uint64 // offsets
}

// Insert implements store.Outbox.
func (o *outbox) Insert(_ context.Context, _ sqldb.Tx, first uint64, events []liveness.Event) (func(), error) {
	var offsets []uint64
	for i := range events {
		offsets = append(offsets, first+uint64(i))
	}
	o.inserted = append(o.inserted, offsets...)
	return func() { o.committed = append(o.committed, offsets...) }, nil
}

// Needed implements store.Outbox.
func (o *outbox) Needed(context.Context) (uint64, error) { return o.needed, nil }

// Release implements store.Outbox.
func (o *outbox) Release(_ context.Context, before uint64) (uint64, error) {
	o.released = append(o.released, before)
	if o.err == nil {
		o.needed = before
	}
	return o.needed, o.err
}

// Events that the outbox needs are kept longer than others, but not beyond twice the bound.
func TestOutboxKeepsEvents(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			o := &outbox{needed: 1}
			s, _ := open(t, config{URL: db.URL(t), Outbox: o, Keep: 15, MaxAge: math.MaxInt64, Cache: 1})
			happen := func(from, to uint64) {
				t.Helper()
				for i := from; i <= to; i++ {
					appendAll(t, s, device(1, "dev-1", i, liveness.DeviceOnline))
				}
			}
			prune := func(want uint64, fails error) {
				t.Helper()
				if err := s.Prune(t.Context()); !errors.Is(err, fails) {
					t.Fatal(err)
				}
				if oldest, _ := s.Bounds(); oldest != want {
					t.Errorf("the oldest event is %d, want %d", oldest, want)
				}
			}
			happen(1, 20)
			prune(1, nil)
			if events, err := s.EventsAt(t.Context(), []uint64{1, 7, 20, 99}); err != nil || len(events) != 3 {
				t.Errorf("EventsAt = %v, %v, want those with 1, 7 and 20", summary(events), err)
			}
			o.needed = 4
			prune(4, nil)
			happen(21, 40)
			o.err = errors.New("not now")
			prune(4, o.err)
			o.err = nil
			prune(11, nil)
			if !slices.Equal(o.released, []uint64{11, 11}) {
				t.Errorf("released %v, want twice those before 11", o.released)
			}
		})
	}
}

// What follows from a batch whose transaction was committed although it failed is done once.
func TestOutboxAmbiguous(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			o := &outbox{needed: math.MaxUint64}
			s, _ := open(t, config{URL: db.URL(t), Outbox: o})
			events := []liveness.Event{device(1, "dev-1", 1, liveness.DeviceOnline), device(2, "dev-2", 1, liveness.DeviceOnline)}
			if err := s.Ambiguous(t.Context(), slices.Clone(events)); err != nil {
				t.Fatal(err)
			}
			if len(o.committed) != 0 {
				t.Errorf("before it is known, %v is committed", o.committed)
			}
			events = append(events, device(1, "dev-1", 2, liveness.DeviceOffline))
			appendAll(t, s, events...)
			if want := []uint64{1, 2, 3}; !slices.Equal(o.inserted, want) || !slices.Equal(o.committed, want) {
				t.Errorf("inserted %v, committed %v, want %v each", o.inserted, o.committed, want)
			}
		})
	}
}
