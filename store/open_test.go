package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/testdb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/store"
)

func TestConfig(t *testing.T) {
	const secret = "hush"
	for _, c := range []struct {
		url  string
		want string // what the error says; empty for none
	}{
		{"sqlite:holter.db", ""},
		{"sqlite:///tmp/holter.db", ""},
		{"sqlite:/tmp/with space/ü%20.db", ""},
		{"postgres://u:hush@localhost/holter?sslmode=disable", ""},
		{"postgresql://u:hush@[::1]:5433/holter", ""},
		{"mysql://u:hush@localhost/holter", ""},
		{"mariadb://u:hush@db:3307/holter?tls=preferred&socket=/run/x", ""},
		{"", "it must begin with"},
		{"holter.db", "it must begin with"},
		{"oracle://u:hush@host/x", `"oracle" is no database`},
		{"sqlite:", "needs the path"},
		{"sqlite:dir/", "needs the path"},
		{"sqlite://dir/x.db", "write sqlite:dir/x.db"},
		{"sqlite:x.db?mode=ro", "takes no options"},
		{"sqlite::memory:", "keeps nothing"},
		{"postgres://u:hush@localhost", "names no database"},
		{"postgres://u:hush@localhost:port/x", "bad database URL"},
		{"postgres://u:hush@localhost/x?sslmode=maybe", "check host, port and options"},
		{"postgres://u:hu%zzsh@localhost/x", "percent-encoded"},
		{"mysql://u:hush@localhost", "names no database"},
		{"mysql://u:hush@localhost/a/b", "names no database"},
		{"mysql://u:hush@localhost/x?multiStatements=true", `option "multiStatements" is not known`},
		{"mysql://u:hush@localhost/x?tls=maybe", "tls=maybe"},
		{"mysql:u:hush@localhost/x", "want //user"},
		{"mysql://u:hush@local host/x", "percent-encoded"},
	} {
		s, err := store.New(store.Config{URL: c.url})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("New(%q): %v", c.url, err)
		case c.want == "" && strings.Contains(s.Place(), secret):
			t.Errorf("%q: the place has the password: %s", c.url, s.Place())
		case c.want == "":
		case !errors.Is(err, store.ErrBadURL) || !strings.Contains(err.Error(), c.want):
			t.Errorf("New(%q): %v, want an ErrBadURL that says %q", c.url, err, c.want)
		case strings.Contains(err.Error(), secret):
			t.Errorf("New(%q): the error has the password: %v", c.url, err)
		}
	}
	_, err := store.New(store.Config{URL: "sqlite:x.db", Checkpoint: -1, Keep: -2, MaxAge: -3, Cache: -4})
	for _, field := range []string{"Checkpoint", "Keep", "MaxAge", "Cache"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("New with a negative %s: %v", field, err)
		}
	}
	if _, err := os.Stat("x.db"); err == nil {
		t.Error("New made a file")
	}
}

func TestNotOpen(t *testing.T) {
	for _, db := range databases {
		t.Run("db="+db.name, func(t *testing.T) {
			url := db.url(t)
			s := newStore(t, store.Config{URL: url})
			r := registry(t, s)
			ctx := t.Context()
			events := []liveness.Event{device(1, "dev-1", 1, liveness.DeviceOnline)}
			check := func(when string) {
				t.Helper()
				_, loadErr := s.Load(ctx, r)
				_, eventsErr := s.DeviceEvents(ctx, "dev-1", 0, 1)
				_, _, tokenErr := s.Lookup(ctx, "x")
				for name, err := range map[string]error{
					"Append": s.Append(ctx, events), "Checkpoint": s.Checkpoint(ctx, r), "Run": s.Run(ctx, r), "Load": loadErr,
					"DeviceEvents": eventsErr, "Lookup": tokenErr, "Health": s.Health(),
				} {
					if !errors.Is(err, store.ErrNotOpen) {
						t.Errorf("%s %s: %v, want ErrNotOpen", name, when, err)
					}
				}
			}
			if !errors.Is(s.Health(), store.ErrNotOpen) {
				t.Errorf("Health: %v", s.Health())
			}
			if err := s.Open(ctx); err != nil {
				t.Fatal(err)
			}
			if err := s.Append(ctx, events); !errors.Is(err, store.ErrNotOpen) {
				t.Errorf("Append before Load: %v", err)
			}
			if err := s.Open(ctx); err == nil {
				t.Error("a second Open succeeds")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = newStore(t, store.Config{URL: url})
			check("before Open")
		})
	}
}

func TestLocked(t *testing.T) {
	for _, db := range databases {
		t.Run("db="+db.name, func(t *testing.T) {
			url := db.url(t)
			s, _ := open(t, store.Config{URL: url})
			appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
			second := newStore(t, store.Config{URL: url})
			err := second.Open(t.Context())
			if !errors.Is(err, store.ErrLocked) {
				t.Fatalf("Open of what is open: %v, want ErrLocked", err)
			}
			t.Log(err)
			if !strings.HasPrefix(url, "mysql") && !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
				t.Errorf("the error does not name the process: %v", err)
			}
			appendAll(t, s, device(1, "dev-1", 2, liveness.DeviceOnline))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if loaded := reopen(t, second); loaded.Devices != 1 {
				t.Errorf("the second one finds %+v", loaded)
			}
		})
	}
}

func TestFenced(t *testing.T) {
	for _, db := range databases {
		t.Run("db="+db.name, func(t *testing.T) {
			url := db.url(t)
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
				s, _ := open(t, store.Config{URL: url, Keep: 1})
				_, latest := s.Bounds()
				appendAll(t, s, device(1, "dev-1", latest+1, liveness.DeviceOnline), device(1, "dev-1", latest+2, liveness.DeviceOnline))
				if err := s.Exec(t.Context(), "UPDATE meta SET fence = fence + 1"); err != nil { // as another store's Open does
					t.Fatal(err)
				}
				for range 2 {
					if err := write.do(s); !errors.Is(err, store.ErrFenced) {
						t.Errorf("%s of a writer that was overtaken: %v, want ErrFenced", write.name, err)
					}
				}
				if err := s.Append(t.Context(), []liveness.Event{device(1, "dev-1", 2, liveness.DeviceOffline)}); !errors.Is(err, store.ErrFenced) {
					t.Errorf("Append after %s was fenced: %v", write.name, err)
				}
				if !errors.Is(s.Health(), store.ErrFenced) {
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

// TestTakeover takes a database over from a store whose lock was lost.
func TestTakeover(t *testing.T) {
	for _, c := range []struct {
		name, cut string
		url       func(testing.TB) string
	}{
		{"postgres", "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())", testdb.Postgres},
		{"mariadb", "", testdb.MariaDB},
	} {
		t.Run("db="+c.name, func(t *testing.T) {
			url := c.url(t)
			first, _ := open(t, store.Config{URL: url})
			appendAll(t, first, device(1, "dev-1", 1, liveness.DeviceOnline))
			cut := c.cut
			if cut == "" {
				var id int64
				err := first.QueryRow(t.Context(), "SELECT IS_USED_LOCK(SUBSTRING(CONCAT('holter.', SHA1(DATABASE())), 1, 40))").Scan(&id)
				if err != nil {
					t.Fatal(err)
				}
				cut = fmt.Sprintf("KILL %d", id)
			}
			if err := first.Exec(t.Context(), cut); err != nil {
				t.Fatal(err)
			}
			second, _ := open(t, store.Config{URL: url})
			if err := first.Append(t.Context(), []liveness.Event{device(1, "dev-1", 2, liveness.DeviceOffline)}); !errors.Is(err, store.ErrFenced) {
				t.Errorf("Append of the first: %v, want ErrFenced", err)
			}
			appendAll(t, second, device(1, "dev-1", 2, liveness.DeviceOffline))
		})
	}
}

// To take a database over and to let go of the jobs that the writer before held is one change: a process
// that is stopped in between, and goes on when another one has taken over, would free that one's jobs.
func TestTakeoverIsWhole(t *testing.T) {
	for _, db := range databases {
		t.Run("db="+db.name, func(t *testing.T) {
			url := db.url(t)
			s, _ := open(t, store.Config{URL: url})
			if err := s.Exec(t.Context(), "ALTER TABLE jobs RENAME TO jobs_elsewhere"); err != nil {
				t.Fatal(err)
			}
			fence := func() (n int64) {
				t.Helper()
				if err := s.QueryRow(t.Context(), "SELECT fence FROM meta").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			before := fence()
			releaseLock(t, s)
			if err := newStore(t, store.Config{URL: url}).Open(t.Context()); err == nil {
				t.Fatal("Open, although the jobs are not there")
			}
			if after := fence(); after != before {
				t.Errorf("the fence was raised from %d to %d, and the jobs were not freed", before, after)
			}
		})
	}
}

// A process that was stopped when it had the lock, and goes on when another one has it and has taken the
// database over, must not take it over from that one.
func TestTakeoverIsLate(t *testing.T) {
	for _, c := range []struct {
		name, waits string
		url         func(testing.TB) string
	}{
		{"postgres", "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'", testdb.Postgres},
		{"mariadb", "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'UPDATE meta%'", testdb.MariaDB},
	} {
		t.Run("db="+c.name, func(t *testing.T) {
			url := c.url(t)
			successor, _ := open(t, store.Config{URL: url})
			releaseLock(t, successor)
			done, err := successor.Begin(t.Context(), "UPDATE meta SET fence = fence + 1") // it is about to take over
			if err != nil {
				t.Fatal(err)
			}
			opened := make(chan error, 1)
			late := newStore(t, store.Config{URL: url})
			go func() { opened <- late.Open(t.Context()) }()
			until(t, time.Minute, "the late one waits", func() bool {
				n := 0
				if err := successor.QueryRow(t.Context(), c.waits).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n > 0
			})
			if err := done(); err != nil {
				t.Fatal(err)
			}
			if err := <-opened; !errors.Is(err, store.ErrFenced) {
				t.Errorf("Open = %v, want ErrFenced", err)
			}
			fence := int64(0)
			if err := successor.QueryRow(t.Context(), "SELECT fence FROM meta").Scan(&fence); err != nil || fence != 2 {
				t.Errorf("the fence is %d, %v, want 2, that of the successor", fence, err)
			}
		})
	}
}

// A process that was stopped when it had taken a file over, and goes on when another one has, leaves no
// mark in it by which that one would take it for overwritten.
func TestMountIsLate(t *testing.T) {
	url := databases[0].url(t)
	late, _ := open(t, store.Config{URL: url})
	releaseLock(t, late)
	successor, _ := open(t, store.Config{URL: url})
	if err := late.Mount(t.Context()); !errors.Is(err, store.ErrFenced) {
		t.Errorf("Mount = %v, want ErrFenced", err)
	}
	appendAll(t, successor, device(1, "dev-1", 1, liveness.DeviceOnline))
}

// releaseLock lets go of the lock of a store, as a server does that takes the store's process for dead.
func releaseLock(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.ReleaseLock(); err != nil {
		t.Fatal(err)
	}
}

// TestLockOfTheDead: a program that a killed process had just begun may hold its lock for a moment.
func TestLockOfTheDead(t *testing.T) {
	url := databases[0].url(t)
	s := newStore(t, store.Config{URL: url})
	if err := errors.Join(s.Open(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	dead := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(strings.TrimPrefix(url, "sqlite:")), "lock")
	if err := os.WriteFile(path, []byte(strconv.Itoa(dead.Process.Pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newStore(t, store.Config{URL: url}).Open(ended); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrLocked) {
		t.Errorf("Open = %v; want that it waits", err)
	}
	opened := make(chan error, 1)
	s = newStore(t, store.Config{URL: url})
	go func() { opened <- s.Open(t.Context()) }()
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestLostLock makes sure that a lock which is lost is taken again.
func TestLostLock(t *testing.T) {
	for name, server := range map[string]func(testing.TB, bool) *testdb.Server{"postgres": testdb.NewPostgres, "mariadb": testdb.NewMariaDB} {
		t.Run("db="+name, func(t *testing.T) {
			srv := server(t, false)
			url := srv.Database(t)
			s, _ := open(t, store.Config{URL: url})
			srv.Kill()
			if err := s.CheckLock(t.Context()); err == nil {
				t.Error("the lock is held although the server is gone")
			}
			srv.Start(t)
			if err := s.CheckLock(t.Context()); err != nil {
				t.Errorf("the lock is not taken again: %v", err)
			}
			if err := newStore(t, store.Config{URL: url}).Open(t.Context()); !errors.Is(err, store.ErrLocked) {
				t.Errorf("Open of what is open: %v, want ErrLocked", err)
			}
		})
	}
}

func TestNewerSchema(t *testing.T) {
	for _, db := range databases {
		t.Run("db="+db.name, func(t *testing.T) {
			url := db.url(t)
			s, _ := open(t, store.Config{URL: url})
			insert := "INSERT INTO schema_version (version_id, is_applied) VALUES (99, true)"
			if err := s.Exec(t.Context(), insert); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			err := s.Open(t.Context())
			if !errors.Is(err, store.ErrNewerSchema) || !strings.Contains(err.Error(), "its schema is 99, this program knows") {
				t.Errorf("Open: %v, want ErrNewerSchema", err)
			}
			if _, err := store.OpenTokens(t.Context(), store.Config{URL: url}); !errors.Is(err, store.ErrNewerSchema) {
				t.Errorf("OpenTokens: %v, want ErrNewerSchema", err)
			}
		})
	}
}

func TestOpenAgainAfterAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	s := newStore(t, store.Config{URL: "sqlite:" + dir + "/b/holter.db"})
	err := s.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "create the directory above") {
		t.Errorf("Open in a directory that cannot be made: %v", err)
	}
	if s.Health() == nil {
		t.Error("Health is nil")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	reopen(t, s)
	if err := s.Health(); err != nil {
		t.Errorf("Health: %v", err)
	}
	info, err := os.Stat(dir + "/b/holter.db")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v, want mode 0600", info, err)
	}
}

func TestTokens(t *testing.T) {
	for _, db := range databases {
		t.Run("db="+db.name, func(t *testing.T) {
			url := db.url(t)
			ctx := t.Context()
			cfg := store.Config{URL: url}
			s, _ := open(t, cfg)
			beside, err := store.OpenTokens(ctx, cfg) // while the store is at work
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := beside.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}()
			if has, err := s.HasTokens(ctx); has || err != nil {
				t.Errorf("HasTokens of an empty database: %v, %v", has, err)
			}
			secret, made, err := beside.CreateToken(ctx, "Grafana's ☃", store.RoleRead)
			if err != nil {
				t.Fatal(err)
			}
			appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
			secret2, made2, err := s.CreateToken(ctx, "Grafana's ☃", store.RoleAdmin)
			if err != nil || secret == secret2 || made.ID == made2.ID || len(secret) < 40 {
				t.Fatalf("the second token is %v, %v", made2, err)
			}
			if made.Name != "Grafana's ☃" || made.Role != store.RoleRead || time.Since(made.Created) > time.Minute {
				t.Errorf("CreateToken = %+v", made)
			}
			if got, ok, err := s.Lookup(ctx, secret); !ok || err != nil || got != made {
				t.Errorf("Lookup = %+v, %v, %v, want %+v", got, ok, err, made)
			}
			for _, wrong := range []string{"", secret + "x", secret[:len(secret)-1], made.ID, "' OR 1=1 --", "\x00\xff"} {
				if got, ok, err := s.Lookup(ctx, wrong); ok || err != nil {
					t.Errorf("Lookup(%q) = %+v, %v, %v", wrong, got, ok, err)
				}
			}
			if all, err := beside.Tokens(ctx); err != nil || len(all) != 2 || all[0] != made || all[1] != made2 {
				t.Errorf("Tokens = %+v, %v", all, err)
			}
			for _, wrong := range []string{"", "zz", "\x00", "' OR 1=1 --"} {
				if err := s.RevokeToken(ctx, wrong); !errors.Is(err, store.ErrUnknownToken) {
					t.Errorf("RevokeToken(%q): %v, want ErrUnknownToken", wrong, err)
				}
			}
			if err := beside.RevokeToken(ctx, made.ID); err != nil {
				t.Fatal(err)
			}
			if _, ok, err := s.Lookup(ctx, secret); ok || err != nil {
				t.Errorf("a revoked token is found: %v, %v", ok, err)
			}
			if has, err := beside.HasTokens(ctx); !has || err != nil {
				t.Errorf("HasTokens: %v, %v", has, err)
			}
			for _, bad := range []string{"", "a\nb", "\xff", strings.Repeat("x", 101)} {
				if _, _, err := s.CreateToken(ctx, bad, store.RoleRead); err == nil {
					t.Errorf("a token of the name %q is made", bad)
				}
			}
			if _, _, err := s.CreateToken(ctx, "x", "root"); err == nil {
				t.Error("a token with the role root is made")
			}
		})
	}
}

func TestTokensFirst(t *testing.T) {
	for _, db := range databases {
		t.Run("db="+db.name, func(t *testing.T) {
			url := db.url(t)
			cfg := store.Config{URL: url}
			tokens, err := store.OpenTokens(t.Context(), cfg) // before any store
			if err != nil {
				t.Fatal(err)
			}
			secret, _, err := tokens.CreateToken(t.Context(), "first", store.RoleAdmin)
			if err != nil {
				t.Fatal(err)
			}
			if err := tokens.Close(); err != nil {
				t.Fatal(err)
			}
			s, _ := open(t, cfg)
			if _, ok, err := s.Lookup(t.Context(), secret); !ok || err != nil {
				t.Errorf("Lookup: %v, %v", ok, err)
			}
		})
	}
}
