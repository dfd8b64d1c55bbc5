package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// servers are the databases that can be killed.
var servers = map[string]func(t testing.TB, durable bool) *testdb.Server{"postgres": testdb.NewPostgres, "mariadb": testdb.NewMariaDB}

// offer appends a batch as a registry does: again and again until it is taken.
func offer(t *testing.T, s *store.Store, events []liveness.Event) (failures int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := s.Append(ctx, events)
		if err == nil {
			return failures
		}
		if errors.Is(err, sqldb.ErrFenced) || ctx.Err() != nil {
			t.Fatalf("Append: %v", err)
		}
		failures++
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// TestServerIsKilled kills the server again and again while events are appended. None may be lost or doubled.
func TestServerIsKilled(t *testing.T) {
	testenv.Check(t)
	for name, server := range servers {
		t.Run("db="+name, func(t *testing.T) {
			t.Parallel()
			srv := server(t, true)
			s, _ := open(t, config{URL: srv.Database(t), Cache: 10})
			stop := make(chan struct{})
			var appender sync.WaitGroup
			var batches uint64
			failures := 0
			const size = 500
			appender.Go(func() {
				for {
					batch := make([]liveness.Event, size)
					for i := range batch {
						batch[i] = device(uint32(i+1), fmt.Sprintf("dev-%d", i+1), batches+1, liveness.DeviceOnline)
					}
					failures += offer(t, s, batch)
					batches++
					select {
					case <-stop:
						return
					default:
					}
				}
			})
			for range 3 {
				for _, before := s.Bounds(); ; { // let it get on
					if _, latest := s.Bounds(); latest >= before+3*size {
						break
					}
					if _, err := s.Wait(t.Context(), nil, before, 1); err != nil && !errors.Is(err, eventlog.ErrMissed) {
						t.Log(err) // from the database, which may be gone
					}
				}
				srv.Kill()
				srv.Start(t)
			}
			close(stop)
			appender.Wait()
			healthy(t, s, soon, "")
			all := readAll(t, s)
			if uint64(len(all)) != batches*size {
				t.Errorf("%d events, want %d", len(all), batches*size)
			}
			checkSeqs(t, all)
			t.Logf("%d batches, %d failures", batches, failures)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if loaded := reopen(t, s); loaded.Devices != size {
				t.Errorf("Load = %+v, want %d devices", loaded, size)
			}
		})
	}
}

// TestServerFails has a server that refuses, is gone, or hangs: it stands where it is, connections stay open and nothing answers.
func TestServerFails(t *testing.T) {
	testenv.Check(t)
	for name, server := range servers {
		t.Run("db="+name, func(t *testing.T) {
			t.Parallel()
			srv := server(t, false)
			url := srv.Database(t)
			for _, c := range []struct{ name, url, want string }{
				{"wrong password", testdb.URLWithPassword(url, "wrongpass"), "authentication failed"},
				{"no such database", strings.Replace(url, "/test", "/nosuch", 1), "no such database"},
			} {
				err := newStore(t, config{URL: c.url}).Open(t.Context())
				if err == nil || !strings.Contains(sqldb.Explain(err), c.want) || strings.Contains(err.Error(), "wrongpass") {
					t.Errorf("%s: %v", c.name, err)
				}
				if _, err := (config{URL: c.url}).shared(t.Context()); err == nil || !strings.Contains(sqldb.Explain(err), c.want) {
					t.Errorf("%s, shared: %v", c.name, err)
				}
			}
			srv.Kill()
			s := newStore(t, config{URL: url, Patience: 2 * time.Second})
			if err := s.Open(t.Context()); err == nil || !strings.Contains(sqldb.Explain(err), "connection refused") {
				t.Errorf("no server: %v", err)
			}
			srv.Start(t)
			reopen(t, s)
			l := begin(t, config{URL: srv.Database(t), Checkpoint: time.Hour}, base) // with the patience of a user
			defer l.end()
			end := running(t, l.store, l.registry)
			defer end()
			healthy(t, l.store, soon, "")

			appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
			srv.Pause(t)
			healthy(t, l.store, soon, "has not answered")
			for range 2 { // on the connection that there was, and on a new one
				err := s.Append(t.Context(), []liveness.Event{device(1, "dev-1", 2, liveness.DeviceOffline)})
				if err == nil || !strings.Contains(sqldb.Explain(err), "no answer in time") {
					t.Errorf("Append: %v", err)
				}
			}
			if _, err := s.DeviceEvents(t.Context(), "dev-1", 0, 1); err == nil {
				t.Error("DeviceEvents: no error")
			}
			healthy(t, s, soon, "has not answered for ")
			srv.Continue(t)
			offer(t, s, []liveness.Event{device(1, "dev-1", 2, liveness.DeviceOffline)})
			if got := summary(readAll(t, s)); len(got) != 2 {
				t.Errorf("events: %v", got)
			}
			healthy(t, s, soon, "")
			healthy(t, l.store, time.Minute, "")
		})
	}
}

// diskOf mounts a small file system, which only root can.
func diskOf(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("NOT TESTED: a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestDiskFull(t *testing.T) {
	dir := diskOf(t, "6m")
	s, _ := open(t, config{URL: "sqlite:" + dir + "/holter.db"})
	batch := func(seq uint64) []liveness.Event {
		events := make([]liveness.Event, 1000)
		for i := range events {
			events[i] = device(uint32(i+1), fmt.Sprintf("dev-%d", i+1), seq, liveness.DeviceOnline)
		}
		return events
	}
	appendAll(t, s, batch(1)...)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	full := uint64(2) // the batch that there is no room for: the log may have some of old
	for full < 10 && s.Append(t.Context(), batch(full)) == nil {
		full++
	}
	for range 3 {
		err := s.Append(t.Context(), batch(full))
		if err == nil || !strings.Contains(sqldb.Explain(err), "disk full: free space on the file system of "+dir) {
			t.Fatalf("Append: %v\n%s", err, sqldb.Explain(err))
		}
	}
	if err := s.Checkpoint(t.Context(), registry(t, s)); err == nil {
		t.Log("a checkpoint of nothing still fits")
	}
	if got := len(readAll(t, s)); got != 1000*int(full-1) {
		t.Errorf("%d events can be read, want %d", got, 1000*(full-1))
	}
	if err := s.Health(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Health: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, batch(full)...)
	if err := s.Health(); err != nil {
		t.Errorf("Health: %v", err)
	}
	checkSeqs(t, readAll(t, s))
}

// TestDatabaseFull is TestDiskFull where nothing can be mounted.
func TestDatabaseFull(t *testing.T) {
	s, _ := open(t, config{URL: "sqlite:" + filepath.Join(t.TempDir(), "holter.db")})
	appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
	if err := s.Exec(t.Context(), "PRAGMA max_page_count = 1"); err != nil { // of this connection, which is given up after the error
		t.Fatal(err)
	}
	events := make([]liveness.Event, 1000)
	for i := range events {
		events[i] = device(uint32(i+2), fmt.Sprintf("dev-%d", i+2), 1, liveness.DeviceOnline)
	}
	if err := s.Append(t.Context(), events); err == nil || !strings.Contains(sqldb.Explain(err), "disk full") {
		t.Errorf("Append: %v", err)
	}
	appendAll(t, s, events...)
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := diskOf(t, "6m")
	url := "sqlite:" + dir + "/data/holter.db"
	s, _ := open(t, config{URL: url})
	appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	err := s.Open(t.Context())
	if err == nil || !errors.Is(err, syscall.EROFS) || !strings.Contains(sqldb.Explain(err), "read-only file system: mount "+dir) {
		t.Errorf("Open: %v", err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if loaded := reopen(t, s); loaded.Devices != 1 {
		t.Errorf("Load = %+v", loaded)
	}
}

func TestNoDatabase(t *testing.T) {
	for _, c := range []struct {
		name, want string
		prepare    func(path string) error
	}{
		{"not a database", "damaged", func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("this is no database. ", 500)), 0o600)
		}},
		{"a directory", "", func(path string) error { return os.Mkdir(path, 0o700) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "holter.db")
			if err := c.prepare(path); err != nil {
				t.Fatal(err)
			}
			err := newStore(t, config{URL: "sqlite:" + path}).Open(t.Context())
			if err == nil || !strings.Contains(sqldb.Explain(err), c.want) {
				t.Errorf("Open: %v", err)
			}
			var place *sqldb.Error
			if !errors.As(err, &place) || place.Op != "open" || place.Place != path {
				t.Errorf("the error does not say where: %v", err)
			}
		})
	}
}
