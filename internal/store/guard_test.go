package store_test

import (
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// copyInto writes a file over another, as cp does.
func copyInto(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// another makes another fleet's database, with more in it than ours has.
func another(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	s, _ := open(t, config{URL: "sqlite:" + path})
	for seq := range uint64(200) {
		appendAll(t, s, device(7, "other", seq+1, liveness.DeviceOnline))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		testwait.Until(t, "removing "+path, func() bool { return os.RemoveAll(path) == nil }) // notes are written into it meanwhile
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// kept is what a database in a file holds, by another reader: the latest event.
func kept(t *testing.T, path string) (last int64) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(t.Context(), "SELECT MAX(pos) FROM events").Scan(&last); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return last
}

// TestFileMended takes the file away from a store at work. What is appended meanwhile counts only once it is in a file at the path; then
// nothing is lost.
func TestFileMended(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, path string)
	}{
		{"deleted", func(t *testing.T, path string) { t.Helper(); remove(t, path) }},
		{"deleted with its log", func(t *testing.T, path string) { t.Helper(); remove(t, path, path+"-wal", path+"-shm") }},
		{"the log deleted", func(t *testing.T, path string) { t.Helper(); remove(t, path+"-wal") }},
		{"the log replaced", func(t *testing.T, path string) {
			t.Helper()
			copyInto(t, path+"-wal", path+".x")
			move(t, path+".x", path+"-wal")
		}},
		{"moved away", func(t *testing.T, path string) { t.Helper(); move(t, path, path+".away") }},
		{"moved away and back", func(t *testing.T, path string) { t.Helper(); move(t, path, path+".away"); move(t, path+".away", path) }},
		{"the directory deleted", func(t *testing.T, path string) { t.Helper(); remove(t, filepath.Dir(path)) }},
		{"the directory moved", func(t *testing.T, path string) { t.Helper(); move(t, filepath.Dir(path), filepath.Dir(path)+".away") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				url := testdb.SQLite(t)
				path := strings.TrimPrefix(url, "sqlite:")
				s, _ := open(t, config{URL: url})
				r := registry(t, s)
				running(t, s, r)
				for seq := range uint64(20) {
					appendAll(t, s, device(1, "dev-1", seq+1, liveness.DeviceOnline))
				}
				c.do(t, path)
				refused := offer(t, s, []liveness.Event{device(1, "dev-1", 21, liveness.DeviceOffline)})
				if c.name != "moved away and back" && refused == 0 {
					t.Error("an append counts at once")
				}
				if got := kept(t, path); got != 21 {
					t.Errorf("the file at the path has %d events, want 21", got)
				}
				healthy(t, s, time.Minute, "")
				if st := s.Stats(); refused > 0 && (st.Repairs == 0 || !strings.Contains(st.LastRepair, "nothing is lost")) {
					t.Errorf("repairs: %d, %q", st.Repairs, st.LastRepair)
				}
				if err := s.Checkpoint(t.Context(), r); err != nil {
					t.Error(err)
				}
				if err := newStore(t, config{URL: url}).Open(t.Context()); !errors.Is(err, sqldb.ErrLocked) {
					t.Errorf("Open of what is open: %v, want ErrLocked", err)
				}
				testwait.Until(t, "the notes", func() bool {
					notes, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "fleet-*"))
					return len(notes) == 1
				})
			})
		})
	}
}

// TestFileMendedOpensAgain is apart since the store must be closed before.
func TestFileMendedOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config{URL: testdb.SQLite(t)}
		s, _ := open(t, cfg)
		end := running(t, s, registry(t, s))
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
		remove(t, filepath.Dir(strings.TrimPrefix(cfg.URL, "sqlite:")))
		offer(t, s, []liveness.Event{device(2, "dev-2", 1, liveness.DeviceOnline)})
		end()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if loaded := reopen(t, s); loaded.Devices != 2 {
			t.Errorf("Load = %+v, want 2 devices", loaded)
		}
		if got := summary(readAll(t, s)); len(got) != 2 {
			t.Errorf("events: %v", got)
		}
	})
}

// TestFileReplaced: the file that somebody put there is left alone, nothing counts as written, and what was in ours is kept beside it.
func TestFileReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config{URL: testdb.SQLite(t)}
		path := strings.TrimPrefix(cfg.URL, "sqlite:")
		s, _ := open(t, cfg)
		end := running(t, s, registry(t, s))
		for seq := range uint64(20) {
			appendAll(t, s, device(1, "dev-1", seq+1, liveness.DeviceOnline))
		}
		replace := func(by, kept string) { // without an instant in which there is no file, which would be written anew
			t.Helper()
			if err := os.Link(path, kept); err != nil {
				t.Fatal(err)
			}
			move(t, by, path)
		}
		replace(another(t), path+".ours")
		healthy(t, s, time.Minute, "all of ours is kept in ")
		event := []liveness.Event{device(1, "dev-1", 21, liveness.DeviceOffline)}
		if err := s.Append(t.Context(), event); !errors.Is(err, sqldb.ErrFile) {
			t.Errorf("Append: %v, want ErrFile", err)
		}
		copies, _ := filepath.Glob(path + ".kept-*")
		if len(copies) != 1 || kept(t, copies[0]) != 20 || kept(t, path) != 200 {
			t.Errorf("copies: %v", copies)
		}
		replace(path+".ours", path+".theirs") // ours comes back
		offer(t, s, event)
		healthy(t, s, time.Minute, "")
		replace(path+".theirs", path+".ours")
		healthy(t, s, time.Minute, "all of ours is kept in ")
		end()
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := s.Open(t.Context()); !errors.Is(err, sqldb.ErrLost) {
			t.Errorf("Open of another fleet's file: %v, want ErrLost", err)
		}
		if got := kept(t, path); got != 200 {
			t.Errorf("the other file has %d events, want 200", got)
		}
	})
}

// TestDirectoryReplaced: in the directory that is there now nothing is changed.
func TestDirectoryReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config{URL: testdb.SQLite(t)}
		path := strings.TrimPrefix(cfg.URL, "sqlite:")
		s, _ := open(t, cfg)
		end := running(t, s, registry(t, s))
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
		move(t, filepath.Dir(path), filepath.Dir(path)+".away")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{"", "-wal"} {
			if err := os.WriteFile(path+end, []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		healthy(t, s, time.Minute, "all of ours is kept in /")
		end()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, end := range []string{"", "-wal"} {
			if text, err := os.ReadFile(path + end); err != nil || string(text) != "theirs" {
				t.Errorf("%s: %q, %v", path+end, text, err)
			}
		}
	})
}

// TestFileOverwritten writes into the file itself. Nothing counts as written from then on, and what is there now is not touched.
func TestFileOverwritten(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, path string)
	}{
		{"emptied", func(t *testing.T, path string) {
			t.Helper()
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		}},
		{"truncated", func(t *testing.T, path string) {
			t.Helper()
			if err := os.Truncate(path, 3*4096); err != nil {
				t.Fatal(err)
			}
		}},
		{"the log truncated", func(t *testing.T, path string) {
			t.Helper()
			if err := os.Truncate(path+"-wal", 0); err != nil {
				t.Fatal(err)
			}
		}},
		{"overwritten by another", func(t *testing.T, path string) { t.Helper(); copyInto(t, another(t), path) }},
		{"overwritten by another that was started as often", func(t *testing.T, path string) {
			t.Helper()
			other := another(t)
			s, _ := open(t, config{URL: "sqlite:" + other})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			copyInto(t, other, path)
		}},
		{"overwritten by an older one", func(t *testing.T, path string) { t.Helper(); copyInto(t, path+".backup", path) }},
		{"overwritten by what is none", func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config{URL: testdb.SQLite(t)}
				path := strings.TrimPrefix(cfg.URL, "sqlite:")
				lives(t, cfg)
				copyInto(t, path, path+".backup")
				s, _ := open(t, cfg)
				end := running(t, s, registry(t, s))
				for seq := range uint64(20) {
					appendAll(t, s, device(1, "dev-1", seq+2, liveness.DeviceOnline))
				}
				c.do(t, path)
				if err := s.Append(t.Context(), []liveness.Event{device(1, "dev-1", 22, liveness.DeviceOffline)}); !errors.Is(err, sqldb.ErrFile) {
					t.Errorf("Append: %v, want ErrFile", err)
				}
				healthy(t, s, time.Minute, "stop holter")
				then, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				end()
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				if now, err := os.ReadFile(path); err != nil || string(now) != string(then) {
					t.Errorf("what is there now was changed: %d bytes, %d before; %v", len(now), len(then), err)
				}
				if _, err := os.Stat(path + "-wal"); err == nil {
					t.Error("the log lies beside it still")
				}
			})
		})
	}
}

// TestFileShrinks: another program may make the file smaller without harm.
func TestFileShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config{URL: testdb.SQLite(t)}
		s, _ := open(t, cfg)
		running(t, s, registry(t, s))
		for n := range uint64(50) {
			var batch []liveness.Event
			for i := range uint32(100) {
				batch = append(batch, device(i+1, name(int(i)), n+1, liveness.DeviceOnline))
			}
			appendAll(t, s, batch...)
		}
		other, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(cfg.URL, "sqlite:")+"?mode=rw&_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Close() }()
		for _, query := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "DELETE FROM events WHERE pos < 4000", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"} {
			if _, err := other.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
		offer(t, s, []liveness.Event{device(1, name(0), 51, liveness.DeviceOffline)})
		healthy(t, s, time.Minute, "")
	})
}
