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
	"github.com/holter-iot/holter/internal/store"
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

// taken is a store that has 20 events when something happens to its file, and tests of what it does then.
func taken(t *testing.T, do func(t *testing.T, path string), test func(t *testing.T, s *store.Store, path string, end func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		url := testdb.SQLite(t)
		path := strings.TrimPrefix(url, "sqlite:")
		s, _ := open(t, config{URL: url})
		running := running(t, s, registry(t, s))
		for seq := range uint64(20) {
			appendAll(t, s, device(1, "dev-1", seq+1, liveness.DeviceOnline))
		}
		do(t, path)
		if err := s.Append(t.Context(), []liveness.Event{device(1, "dev-1", 21, liveness.DeviceOffline)}); !errors.Is(err, sqldb.ErrFile) {
			t.Errorf("Append: %v, want ErrFile", err)
		}
		test(t, s, path, func() {
			running()
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	})
}

// has20 opens a store again, which is to have all that was appended.
func has20(t *testing.T, s *store.Store) {
	t.Helper()
	reopen(t, s)
	if got := readAll(t, s); len(got) != 20 {
		t.Errorf("%d events, want 20", len(got))
	}
}

// TestFileGone takes the file away from a store at work. Nothing that is appended then counts, and the next start misses the file. All that
// counted before is in what is still open: copied from there, it goes on with all of that.
func TestFileGone(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, path string){
		"deleted":               func(t *testing.T, path string) { t.Helper(); remove(t, path) },
		"deleted with its log":  func(t *testing.T, path string) { t.Helper(); remove(t, path, path+"-wal", path+"-shm") },
		"moved away":            func(t *testing.T, path string) { t.Helper(); move(t, path, path+".away") },
		"the directory deleted": func(t *testing.T, path string) { t.Helper(); remove(t, filepath.Dir(path)) },
		"the directory moved":   func(t *testing.T, path string) { t.Helper(); move(t, filepath.Dir(path), filepath.Dir(path)+".away") },
	} {
		t.Run(name, func(t *testing.T) {
			var was [2]os.FileInfo
			taken(t, func(t *testing.T, path string) {
				t.Helper()
				for i, end := range []string{"", "-wal"} {
					info, err := os.Stat(path + end)
					if err != nil {
						t.Fatal(err)
					}
					was[i] = info
				}
				do(t, path)
			}, func(t *testing.T, s *store.Store, path string, end func()) {
				t.Helper()
				healthy(t, s, time.Minute, "put ours back, or copy it from what this process has open")
				saved := filepath.Join(t.TempDir(), "holter.db")
				for i, end := range []string{"", "-wal"} {
					copyInto(t, stillOpen(t, was[i]), saved+end)
				}
				testwait.Until(t, "the notes", func() bool {
					notes, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "fleet-*"))
					return len(notes) == 1
				})
				end()
				if err := s.Open(t.Context()); !errors.Is(err, sqldb.ErrLost) {
					t.Fatalf("Open without the file: %v, want ErrLost", err)
				}
				for _, end := range []string{"", "-wal"} {
					copyInto(t, saved+end, path+end)
				}
				has20(t, s)
			})
		})
	}
}

// stillOpen returns the path at which the system lets a file be read that this process has open.
func stillOpen(t *testing.T, was os.FileInfo) string {
	t.Helper()
	const open = "/proc/self/fd"
	all, err := os.ReadDir(open)
	if err != nil {
		t.Skip(err) // not on Linux
	}
	for _, fd := range all {
		path := filepath.Join(open, fd.Name())
		if info, err := os.Stat(path); err == nil && os.SameFile(info, was) {
			return path
		}
	}
	t.Fatalf("%s is not open any more", was.Name())
	return ""
}

// TestFileIsBack: a file that was away for a moment is the one that was opened.
func TestFileIsBack(t *testing.T) {
	taken(t, func(t *testing.T, path string) { t.Helper(); move(t, path, path+".away") }, func(t *testing.T, s *store.Store, path string, _ func()) {
		t.Helper()
		move(t, path+".away", path)
		offer(t, s, []liveness.Event{device(1, "dev-1", 21, liveness.DeviceOffline)})
		if got := kept(t, path); got != 21 {
			t.Errorf("the file at the path has %d events, want 21", got)
		}
		healthy(t, s, time.Minute, "")
	})
}

// TestLogGone: without its log at its path nothing counts, and what is in the log is in the file once the store is closed.
func TestLogGone(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, path string){
		"deleted":           func(t *testing.T, path string) { t.Helper(); remove(t, path+"-wal") },
		"its index deleted": func(t *testing.T, path string) { t.Helper(); remove(t, path+"-shm") },
		"replaced": func(t *testing.T, path string) {
			t.Helper()
			copyInto(t, path+"-wal", path+".x")
			move(t, path+".x", path+"-wal")
		},
	} {
		t.Run(name, func(t *testing.T) {
			taken(t, do, func(t *testing.T, s *store.Store, path string, end func()) {
				t.Helper()
				healthy(t, s, time.Minute, "stop holter with SIGTERM")
				end()
				if got := kept(t, path); got != 20 {
					t.Errorf("the file has %d events, want 20", got)
				}
				has20(t, s)
			})
		})
	}
}

// TestFileReplaced: the file that somebody put there is left alone, and our log does not stay beside it. With that log ours goes on later.
func TestFileReplaced(t *testing.T) {
	replace := func(t *testing.T, path string) { // without an instant in which there is no file
		t.Helper()
		if err := os.Link(path, path+".ours"); err != nil {
			t.Fatal(err)
		}
		move(t, another(t), path)
	}
	t.Run("stays", func(t *testing.T) {
		taken(t, replace, func(t *testing.T, s *store.Store, path string, end func()) {
			t.Helper()
			healthy(t, s, time.Minute, "its log is in "+path+".lost-wal")
			end()
			if err := s.Open(t.Context()); !errors.Is(err, sqldb.ErrLost) {
				t.Errorf("Open of another fleet's file: %v, want ErrLost", err)
			}
			if got := kept(t, path); got != 200 {
				t.Errorf("the other file has %d events, want 200", got)
			}
			remove(t, path+"-wal", path+"-shm") // of the other, from looking at it
			move(t, path+".ours", path)
			move(t, path+".lost-wal", path+"-wal")
			has20(t, s)
		})
	})
	t.Run("ours comes back", func(t *testing.T) {
		taken(t, replace, func(t *testing.T, s *store.Store, path string, end func()) {
			t.Helper()
			healthy(t, s, time.Minute, "put ours back")
			move(t, path+".ours", path)
			healthy(t, s, time.Minute, "stop holter with SIGTERM")
			end()
			has20(t, s)
		})
	})
}

// TestLockGone: a directory is moved away, and only the files of the database come back. The store goes on, and
// other processes see again that it is at work.
func TestLockGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config{URL: testdb.SQLite(t)}
		path := strings.TrimPrefix(cfg.URL, "sqlite:")
		s, _ := open(t, cfg)
		end := running(t, s, registry(t, s))
		away := filepath.Dir(path) + ".away"
		move(t, filepath.Dir(path), away)
		healthy(t, s, time.Minute, "put ours back")
		for _, end := range []string{"", "-wal"} {
			move(t, filepath.Join(away, filepath.Base(path))+end, path+end)
		}
		healthy(t, s, time.Minute, "-shm was deleted") // another process would not see our writes
		move(t, filepath.Join(away, filepath.Base(path))+"-shm", path+"-shm")
		healthy(t, s, time.Minute, "")
		other, err := sqldb.New(cfg.database())
		if err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, "the lock", func() bool {
			holder, err := other.Holder(t.Context())
			return err == nil && !holder.Free
		})
		if err := other.Open(t.Context()); !errors.Is(err, sqldb.ErrLocked) {
			t.Errorf("Open by another: %v, want ErrLocked", err)
		}
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
		end()
		if err := s.Close(); err != nil {
			t.Error(err)
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
		healthy(t, s, time.Minute, "put ours back")
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
