package transfer_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/sqldb/transfer"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

// A fleet is moved around all databases and back; whoever has had it before is refused.
func TestMove(t *testing.T) {
	dir := t.TempDir()
	all := testdb.Databases()
	url := all[0].URL(t)
	db := fleet(t, url)
	first := filepath.Join(t.TempDir(), "first.db")
	if _, err := transfer.Make(t.Context(), db, first, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	term := int64(1)
	for i := range all {
		to := all[(i+1)%len(all)]
		t.Run("to="+to.Name, func(t *testing.T) {
			next := to.Empty(t)
			m := move(t, url, next, dir)
			moved, err := m.Run(t.Context())
			if err != nil || moved.Before {
				t.Fatalf("Run = %+v, %v", moved, err)
			}
			old := testsqldb.New(t, sqldb.Config{URL: url, Dir: dir})
			if err := old.Open(t.Context()); !errors.Is(err, sqldb.ErrMoved) || !strings.Contains(err.Error(), "holter migrate --undo") {
				t.Errorf("the old database opens: %v", err)
			}
			if _, err := sqldb.OpenShared(t.Context(), sqldb.Config{URL: url, Dir: dir}); !errors.Is(err, sqldb.ErrMoved) {
				t.Errorf("the old database can be shared: %v", err)
			}
			if again, err := m.Run(t.Context()); err != nil || !again.Before {
				t.Errorf("once more = %+v, %v", again, err)
			}
			fresh := testsqldb.Open(t, sqldb.Config{URL: next, Dir: dir})
			if fresh.Fence() <= term {
				t.Errorf("term %d after %d", fresh.Fence(), term)
			}
			term = fresh.Fence()
			if err := fresh.Close(); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "b.db")
			if _, err := transfer.Make(t.Context(), fresh, file, transfer.Options{}); err != nil {
				t.Fatal(err)
			}
			same(t, first, file)
			url = next
		})
	}
}

func move(t *testing.T, from, to, dir string) *transfer.Move {
	t.Helper()
	return &transfer.Move{From: sqldb.Config{URL: from, Dir: dir}, To: sqldb.Config{URL: to, Dir: dir}, Say: func(text string) { t.Log(text) }}
}

// Wherever a move ends early, at most one database opens, and another move comes to its end with all that there was.
func TestMoveEndsEarly(t *testing.T) {
	all := testdb.Databases()
	ways := [][2]testdb.Database{{all[0], all[0]}}
	if len(all) > 1 {
		ways = [][2]testdb.Database{{all[0], all[1]}, {all[2], all[0]}}
	}
	for _, way := range ways {
		from, to := way[0], way[1]
		t.Run(from.Name+" to "+to.Name, func(t *testing.T) {
			dir, url, other := t.TempDir(), from.URL(t), to.Empty(t)
			db := fleetWithout(t, url)
			first := filepath.Join(t.TempDir(), "first.db")
			if _, err := transfer.Make(t.Context(), db, first, transfer.Options{}); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{"events", "devices", "tokens", "free", "marked"} {
				ctx, cancel := context.WithCancelCause(t.Context())
				stop := errors.New("ended early")
				m := move(t, url, other, dir)
				end := func(text string) {
					if strings.Contains(text, at) {
						cancel(stop)
					}
				}
				m.Say, m.Tell = end, func(table string, _ int64) { end(table) }
				if _, err := m.Run(ctx); err == nil {
					t.Fatalf("at %s: it went on", at)
				}
				if at == "marked" {
					if n := opens(t, dir, url, other); n != 0 {
						t.Errorf("at %s: %d databases open", at, n)
					}
				} else if n := opens(t, dir, url, other); n != 1 {
					t.Errorf("at %s: %d databases open", at, n)
				}
			}
			if moved, err := move(t, url, other, dir).Run(t.Context()); err != nil || moved.Before {
				t.Fatalf("Run = %+v, %v", moved, err)
			}
			file := filepath.Join(t.TempDir(), "b.db")
			target := testsqldb.New(t, sqldb.Config{URL: other, Dir: dir})
			if _, err := transfer.Make(t.Context(), target, file, transfer.Options{}); err != nil {
				t.Fatal(err)
			}
			same(t, first, file)
			if n := opens(t, dir, url, other); n != 1 {
				t.Errorf("in the end %d databases open", n)
			}
		})
	}
}

// opens returns how many of some databases can be opened.
func opens(t *testing.T, dir string, urls ...string) (n int) {
	t.Helper()
	for _, url := range urls {
		db := testsqldb.New(t, sqldb.Config{URL: url, Dir: dir})
		err := db.Open(t.Context())
		switch {
		case err == nil:
			n++
		case !errors.Is(err, sqldb.ErrMoved):
			t.Errorf("%s: %v", url, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	return n
}

func TestUndo(t *testing.T) {
	kinds := testdb.Databases()
	for _, kind := range kinds[:min(2, len(kinds))] {
		dir, url, other := t.TempDir(), testdb.SQLite(t), kind.Empty(t)
		fleet(t, url)
		m := move(t, url, other, dir)
		if err := m.Undo(t.Context()); err == nil || !strings.Contains(err.Error(), "was not moved to") {
			t.Errorf("before: %v", err)
		}
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		there := testsqldb.Open(t, sqldb.Config{URL: other, Dir: dir})
		if err := m.Undo(t.Context()); !errors.Is(err, sqldb.ErrLocked) {
			t.Errorf("under a server: %v", err)
		}
		term := there.Fence()
		if err := there.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second finds it done
			if err := m.Undo(t.Context()); err != nil && !strings.Contains(err.Error(), "was not moved to") {
				t.Fatal(err)
			}
		}
		if n := opens(t, dir, url, other); n != 1 {
			t.Errorf("%d databases open", n)
		}
		back := testsqldb.Open(t, sqldb.Config{URL: url, Dir: dir})
		if back.Fence() <= term {
			t.Errorf("term %d after %d", back.Fence(), term)
		}
	}
}
