package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// running runs a store until the test ends, or the function that it returns is called.
func running(t *testing.T, s *store.Store, r *liveness.Registry) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx, r); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	end = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(end)
	return end
}

// healthy waits until Health says that all is well, or that something with the words is not. That may take as long as most, and as the
// machine does not run the test meanwhile.
func healthy(t *testing.T, s *store.Store, most time.Duration, words string) {
	t.Helper()
	stalls, begun := testwait.Watch(t), time.Now()
	testwait.Until(t, "Health says "+words, func() bool {
		err := s.Health()
		if words == "" {
			return err == nil
		}
		return err != nil && strings.Contains(err.Error(), words)
	}, func() string { return fmt.Sprint(s.Health()) })
	now := time.Now()
	t.Logf("after %v: %v", now.Sub(begun), s.Health())
	if stalled := stalls.Between(begun, now); now.Sub(begun) > most+stalled {
		t.Errorf("Health says %q after %v, want %v at most; the machine stalled for %v", words, now.Sub(begun), most, stalled)
	}
}

// soon is less than any patience with a database: what is seen within it did not wait for the database.
const soon = 8 * time.Second

func TestHealthOfALockedFile(t *testing.T) {
	url := testdb.SQLite(t)
	l := begin(t, config{URL: url, Checkpoint: time.Hour}, base)
	defer l.end()
	end := running(t, l.store, l.registry)
	defer end()
	healthy(t, l.store, soon, "")
	other, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite:")+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	healthy(t, l.store, soon, "is locked")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	healthy(t, l.store, time.Minute, "")
}

// TestShortLife: a life that ends before the first checkpoint is due leaves its clock, and the time after it is deaf.
func TestShortLife(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			cfg := config{URL: db.URL(t), Checkpoint: time.Hour}
			first := begin(t, cfg, base)
			end := running(t, first.store, first.registry)
			first.pulse()
			testwait.Until(t, "a checkpoint", func() bool {
				first.listen(time.Second)
				return first.store.Stats().Checkpoint.Written > 0
			})
			end()
			heard := first.now
			first.end()

			second := begin(t, cfg, heard.Add(time.Hour))
			defer second.end()
			second.pulse()
			testwait.Until(t, "a deaf record", func() bool { return len(second.source.View().Deaf) > 0 })
			if v := second.source.View(); v.DeafTotal < time.Hour || v.Listened > heard.Sub(base)+time.Second {
				t.Errorf("the source: %+v", v)
			}
		})
	}
}
