package sqldb_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/sqldb/transfer"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

// stopped returns a judge that was stopped, and does not know that its lock or lease is free for others.
func stopped(t *testing.T, url string) *sqldb.DB {
	t.Helper()
	db := testsqldb.New(t, sqldb.Config{URL: url, Dir: t.TempDir(), Node: "stopped"})
	db.SetLease(500*time.Millisecond, 50*time.Millisecond, time.Second)
	if err := db.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := write(t, db); err != nil {
		t.Fatal(err)
	}
	if db.InFile() {
		if err := db.ReleaseLock(); err != nil {
			t.Fatal(err)
		}
	} else {
		db.Freeze()
	}
	return db
}

// A judge that was stopped, and wakes up after its fleet was restored or moved, can change nothing.
func TestTransferFences(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("restore/"+kind.Name, func(t *testing.T) {
			url, file := kind.URL(t), filepath.Join(t.TempDir(), "b.db")
			old := stopped(t, url)
			if _, err := transfer.Make(t.Context(), old, file, transfer.Options{}); err != nil {
				t.Fatal(err)
			}
			target := testsqldb.New(t, sqldb.Config{URL: url, Dir: t.TempDir()})
			var err error
			for { // its lease is to end first
				if _, err = transfer.Restore(t.Context(), file, target, t.TempDir(), true, nil); !errors.Is(err, sqldb.ErrLocked) {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			fenced(t, old)
			fresh := testsqldb.Open(t, sqldb.Config{URL: url, Dir: t.TempDir()})
			fenced(t, old)
			if fresh.Fence() < old.Fence()+100_000 {
				t.Errorf("term %d after %d", fresh.Fence(), old.Fence())
			}
			if err := write(t, fresh); err != nil {
				t.Error(err)
			}
		})
		t.Run("move/"+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			old := stopped(t, url)
			to := testdb.EmptySQLite(t)
			m := transfer.Move{From: sqldb.Config{URL: url, Dir: t.TempDir()}, To: sqldb.Config{URL: to, Dir: t.TempDir()}, Say: func(string) {}}
			if _, err := m.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			fenced(t, old)
			fresh := testsqldb.Open(t, sqldb.Config{URL: to, Dir: t.TempDir()})
			if fresh.Fence() <= old.Fence() || fresh.ID() != old.ID() {
				t.Errorf("term %d of %s after %d of %s", fresh.Fence(), fresh.ID(), old.Fence(), old.ID())
			}
		})
	}
}

func fenced(t *testing.T, db *sqldb.DB) {
	t.Helper()
	if err := write(t, db); !errors.Is(err, sqldb.ErrFenced) && !errors.Is(err, sqldb.ErrFile) {
		t.Errorf("the judge from before writes: %v", err)
	}
}
