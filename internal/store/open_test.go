package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

func TestNotOpen(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s := newStore(t, config{URL: url})
			r := registry(t, s)
			ctx := t.Context()
			events := []liveness.Event{device(1, "dev-1", 1, liveness.DeviceOnline)}
			check := func(when string) {
				t.Helper()
				_, loadErr := s.Load(ctx, r)
				_, eventsErr := s.DeviceEvents(ctx, "dev-1", 0, 1)
				for name, err := range map[string]error{
					"Append": s.Append(ctx, events), "Checkpoint": s.Checkpoint(ctx, r), "Run": s.Run(ctx, r), "Load": loadErr,
					"DeviceEvents": eventsErr, "Health": s.Health(),
				} {
					if !errors.Is(err, sqldb.ErrNotOpen) {
						t.Errorf("%s %s: %v, want ErrNotOpen", name, when, err)
					}
				}
			}
			if !errors.Is(s.Health(), sqldb.ErrNotOpen) {
				t.Errorf("Health: %v", s.Health())
			}
			if err := s.Open(ctx); err != nil {
				t.Fatal(err)
			}
			if err := s.Append(ctx, events); !errors.Is(err, sqldb.ErrNotOpen) {
				t.Errorf("Append before Load: %v", err)
			}
			if err := s.Open(ctx); err == nil {
				t.Error("a second Open succeeds")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = newStore(t, config{URL: url})
			check("before Open")
		})
	}
}

func TestFenced(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			for _, write := range []struct {
				name string
				do   func(s *store.Store) error
			}{
				{"Append", func(s *store.Store) error {
					return s.Append(t.Context(), []liveness.Event{device(1, "dev-1", 2, liveness.DeviceOffline)})
				}},
				{"Checkpoint", func(s *store.Store) error { return s.Checkpoint(t.Context(), registry(t, s)) }},
				{"Prune", func(s *store.Store) error { return s.Prune(t.Context()) }},
			} {
				s, _ := open(t, config{URL: url, Keep: 1})
				_, latest := s.Bounds()
				appendAll(t, s, device(1, "dev-1", latest+1, liveness.DeviceOnline), device(1, "dev-1", latest+2, liveness.DeviceOnline))
				if err := s.Exec(t.Context(), "UPDATE meta SET fence = fence + 1"); err != nil { // as another store's Open does
					t.Fatal(err)
				}
				for range 2 {
					if err := write.do(s); !errors.Is(err, sqldb.ErrFenced) {
						t.Errorf("%s of a writer that was overtaken: %v, want ErrFenced", write.name, err)
					}
				}
				if err := s.Append(t.Context(), []liveness.Event{device(1, "dev-1", 2, liveness.DeviceOffline)}); !errors.Is(err, sqldb.ErrFenced) {
					t.Errorf("Append after %s was fenced: %v", write.name, err)
				}
				if !errors.Is(s.Health(), sqldb.ErrFenced) {
					t.Errorf("Health: %v", s.Health())
				}
				if got := rowOf(t, s, 1); got.seq != int64(latest+2) {
					t.Errorf("%s of a writer that was overtaken has changed the row: %+v", write.name, got)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A reader that comes from the judge of today to one that has not noticed that it was overtaken is not told to begin anew.
func TestReadOvertaken(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			s, _ := open(t, config{URL: db.URL(t)})
			appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
			if err := s.Exec(t.Context(), "UPDATE meta SET last_offset = 3"); err != nil { // as the other one does
				t.Fatal(err)
			}
			for after, want := range map[uint64]error{1: nil, 2: sqldb.ErrFenced, 3: sqldb.ErrFenced, 4: eventlog.ErrMissed} {
				if _, err := s.Read(t.Context(), nil, after, 10); !errors.Is(err, want) {
					t.Errorf("Read after %d: %v, want %v", after, err, want)
				}
			}
			if _, err := s.Wait(t.Context(), nil, 3, 10); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Wait: %v, want ErrFenced", err)
			}
		})
	}
}

// Run ends as soon as another process has the lease, long before the next checkpoint.
func TestRunEndsWithTheLease(t *testing.T) {
	for _, db := range testdb.Databases()[1:] {
		t.Run("db="+db.Name, func(t *testing.T) {
			s, _ := open(t, config{URL: db.URL(t), Checkpoint: time.Hour})
			ended := make(chan error, 1)
			r := registry(t, s)
			go func() { ended <- s.Run(t.Context(), r) }()
			if err := s.Exec(t.Context(), "UPDATE judge SET node = 'b', term = term + 1, nonce = 7"); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Run = %v, want ErrFenced", err)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	_, err := config{URL: "sqlite:x.db", Checkpoint: -1, Keep: -2, MaxAge: -3, Cache: -4}.store()
	for _, field := range []string{"Checkpoint", "Keep", "MaxAge", "Cache"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("New with a negative %s: %v", field, err)
		}
	}
}
