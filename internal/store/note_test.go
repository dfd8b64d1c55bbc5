package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// lives lets a store live and keep something.
func lives(t *testing.T, cfg config) {
	t.Helper()
	s, _ := open(t, cfg)
	appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// refuses checks that nothing opens the database before the loss is accepted, and that it goes on with the devices that are there then, and
// once more without the flag.
func refuses(t *testing.T, cfg config, what string, devices int) {
	t.Helper()
	for range 2 {
		err := newStore(t, cfg).Open(t.Context())
		if !errors.Is(err, sqldb.ErrLost) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "--accept-loss") {
			t.Fatalf("Open = %v, want ErrLost that says %q and names the flag", err, what)
		}
	}
	cfg.AcceptLoss = true
	for range 2 {
		s, loaded := open(t, cfg)
		if loaded.Devices != devices {
			t.Errorf("Load = %+v, want %d devices", loaded, devices)
		}
		if devices == 0 {
			devices++
			appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		cfg.AcceptLoss = false // it was for one start only
	}
}

func TestLostFile(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		for _, c := range []struct {
			name, what string
			do         func(path string) error
		}{
			{"file deleted", "the file is not there", os.Remove},
			{"all of the file deleted", "the file is not there", func(path string) error {
				return errors.Join(os.Remove(path), os.RemoveAll(path+"-wal"), os.RemoveAll(path+"-shm"))
			}},
			{"emptied", "the file is empty", func(path string) error { return os.Truncate(path, 0) }},
			{"another", "another one", func(path string) error {
				other := filepath.Join(t.TempDir(), "other.db")
				lives(t, config{URL: "sqlite:" + other})
				return os.Rename(other, path)
			}},
			{"directory moved", "the file is not there", func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") }},
		} {
			if c.name == "directory moved" && !elsewhere {
				continue // the note with it
			}
			name := c.name
			if elsewhere {
				name += ", notes elsewhere"
			}
			t.Run(name, func(t *testing.T) {
				cfg := config{URL: testdb.SQLite(t)}
				path := strings.TrimPrefix(cfg.URL, "sqlite:")
				if elsewhere {
					cfg.Dir = filepath.Join(t.TempDir(), "notes")
				}
				lives(t, cfg)
				lives2, _ := open(t, cfg)
				if err := lives2.Close(); err != nil {
					t.Fatal(err)
				}
				if err := c.do(path); err != nil {
					t.Fatal(err)
				}
				if c.name != "another" { // which would have to be opened
					if _, err := cfg.shared(t.Context()); !errors.Is(err, sqldb.ErrLost) {
						t.Errorf("OpenShared: %v, want ErrLost", err)
					}
					if err := cfg.missing(); !errors.Is(err, sqldb.ErrLost) {
						t.Errorf("Lost: %v, want ErrLost", err)
					}
				}
				if _, err := os.Stat(path); c.what == "the file is not there" && err == nil {
					t.Error("the file was made")
				}
				devices := 0
				if c.name == "another" {
					devices = 1
				}
				refuses(t, cfg, c.what, devices)
			})
		}
	}
}

// TestLostServer: a database on a server that was emptied is missed by the note in the data directory. Another database is not, and neither
// is one that is moved with its directory.
func TestLostServer(t *testing.T) {
	for _, db := range testdb.Databases()[1:] {
		t.Run("db="+db.Name, func(t *testing.T) {
			cfg := config{URL: db.URL(t), Dir: filepath.Join(t.TempDir(), "data")}
			lives(t, cfg)
			other := cfg
			other.URL = db.URL(t)
			lives(t, other)
			s, _ := open(t, cfg)
			if err := s.Exec(t.Context(), "DELETE FROM meta"); err != nil {
				t.Fatal(err)
			}
			for _, table := range []string{"devices", "device_states", "events", "pages", "sources", "names"} {
				if err := s.Exec(t.Context(), "DELETE FROM "+table); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			refuses(t, cfg, "the database is empty", 0)
		})
	}
	dir := filepath.Join(t.TempDir(), "data")
	lives(t, config{URL: "sqlite:" + dir + "/holter.db"})
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	lives2, loaded := open(t, config{URL: "sqlite:" + dir + ".moved/holter.db"})
	if loaded.Devices != 1 {
		t.Errorf("in a directory that was moved: %+v", loaded)
	}
	if err := lives2.Close(); err != nil {
		t.Fatal(err)
	}
}
