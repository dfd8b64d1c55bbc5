package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
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
		db, err := sqldb.New(sqldb.Config{URL: c.url})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("New(%q): %v", c.url, err)
		case c.want == "" && strings.Contains(db.Place(), secret):
			t.Errorf("%q: the place has the password: %s", c.url, db.Place())
		case c.want == "":
		case !errors.Is(err, sqldb.ErrBadURL) || !strings.Contains(err.Error(), c.want):
			t.Errorf("New(%q): %v, want an ErrBadURL that says %q", c.url, err, c.want)
		case strings.Contains(err.Error(), secret):
			t.Errorf("New(%q): the error has the password: %v", c.url, err)
		}
	}
	if _, err := sqldb.New(sqldb.Config{URL: "sqlite:x.db", Patience: -1}); err == nil || !strings.Contains(err.Error(), "Patience") {
		t.Errorf("New with a negative Patience: %v", err)
	}
	for _, name := range []string{"two words", "ü", strings.Repeat("x", 65)} {
		if _, err := sqldb.New(sqldb.Config{URL: "sqlite:x.db", Node: name}); err == nil || !strings.Contains(err.Error(), "Node") {
			t.Errorf("New with the Node %q: %v", name, err)
		}
	}
	if _, err := os.Stat("x.db"); err == nil {
		t.Error("New made a file")
	}
}

// What owners do at a takeover and the fence are one change: a process that is stopped in between, and
// goes on when another one has taken over, would change what that one has.
func TestTakeoverIsWhole(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			db := open(t, url)
			fence := func() (n int64) {
				t.Helper()
				if err := db.Scan(t.Context(), "SELECT fence FROM meta", &n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			before := fence()
			releaseLock(t, db)
			wrong := errkind.Errorf(io.EOF, "not yet")
			late := newDB(t, url)
			late.Own(sqldb.Owner{TakeOver: func(ctx context.Context, tx sqldb.Tx) error {
				_, err := tx.Exec(ctx, "DELETE FROM names")
				return errors.Join(err, wrong)
			}})
			if err := late.Open(t.Context()); !errors.Is(err, wrong) {
				t.Fatalf("Open = %v, want the error of the owner", err)
			}
			if after := fence(); after != before {
				t.Errorf("the fence was raised from %d to %d, although an owner did not take over", before, after)
			}
		})
	}
}

// A process that was stopped when it had the lease, and goes on when another one has it, must not take the
// database over from that one, nor one whose lease a failover of the database has lost.
func TestTakeoverIsLate(t *testing.T) {
	testenv.Check(t)
	for _, c := range []struct {
		name, waits string
		url         func(testing.TB) string
	}{
		{"postgres", "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'", testdb.Postgres},
		// A statement that has just ended is listed for a moment more.
		{"mariadb", "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'UPDATE meta%' AND time_ms > 100", testdb.MariaDB},
	} {
		for _, other := range []struct {
			name, first, then string
			fence             int64
		}{
			{"another took over", "UPDATE meta SET fence = fence + 1", "SELECT 1", 2},
			{"another has the lease", "UPDATE meta SET fence = fence", "UPDATE judge SET node = 'b', nonce = 7", 1},
		} {
			t.Run("db="+c.name+"/"+other.name, func(t *testing.T) {
				url := c.url(t)
				successor := open(t, url)
				releaseLock(t, successor)
				begun, commit, done := make(chan bool), make(chan bool), make(chan error, 1)
				go func() {
					done <- successor.WriteShared(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
						_, err := tx.Exec(ctx, other.first)
						close(begun)
						<-commit
						if err == nil {
							_, err = tx.Exec(ctx, other.then)
						}
						return err
					})
				}()
				<-begun
				opened := make(chan error, 1)
				late := newDB(t, url)
				go func() { opened <- late.Open(t.Context()) }()
				testwait.Until(t, "the late one waits", func() bool {
					n := 0
					if err := successor.Scan(t.Context(), c.waits, &n); err != nil {
						t.Fatal(err)
					}
					return n > 0
				})
				close(commit)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if err := <-opened; !errors.Is(err, sqldb.ErrFenced) {
					t.Errorf("Open = %v, want ErrFenced", err)
				}
				fence := int64(0)
				if err := successor.Scan(t.Context(), "SELECT fence FROM meta", &fence); err != nil || fence != other.fence {
					t.Errorf("the fence is %d, %v, want %d", fence, err, other.fence)
				}
			})
		}
	}
}

// A process that was stopped when it had taken a file over, and goes on when another one has, leaves no
// mark in it by which that one would take it for overwritten.
func TestMountIsLate(t *testing.T) {
	url := testdb.SQLite(t)
	late := open(t, url)
	releaseLock(t, late)
	successor := open(t, url)
	if err := late.Mount(t.Context()); !errors.Is(err, sqldb.ErrFenced) {
		t.Errorf("Mount = %v, want ErrFenced", err)
	}
	if err := write(t, successor); err != nil {
		t.Error(err)
	}
}

// releaseLock lets go of the lock of a database, as a server does that takes the process for dead.
func releaseLock(t *testing.T, db *sqldb.DB) {
	t.Helper()
	if err := db.ReleaseLock(); err != nil {
		t.Fatal(err)
	}
}

// TestLockOfTheDead: a program that a killed process had just begun may hold its lock for a moment.
func TestLockOfTheDead(t *testing.T) {
	url := testdb.SQLite(t)
	db := newDB(t, url)
	if err := errors.Join(db.Open(t.Context()), db.Close()); err != nil {
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
	if err := newDB(t, url).Open(ended); !errors.Is(err, context.Canceled) || errors.Is(err, sqldb.ErrLocked) {
		t.Errorf("Open = %v; want that it waits", err)
	}
	opened := make(chan error, 1)
	db = newDB(t, url)
	go func() { opened <- db.Open(t.Context()) }()
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestNewerSchema(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			db := open(t, url)
			insert := "INSERT INTO schema_version (version_id, is_applied) VALUES (99, true)"
			if err := db.Exec(t.Context(), insert); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			err := db.Open(t.Context())
			if !errors.Is(err, sqldb.ErrNewerSchema) || !strings.Contains(err.Error(), "its schema is 99, this program knows") {
				t.Errorf("Open: %v, want ErrNewerSchema", err)
			}
			if _, err := sqldb.OpenShared(t.Context(), sqldb.Config{URL: url}); !errors.Is(err, sqldb.ErrNewerSchema) {
				t.Errorf("OpenShared: %v, want ErrNewerSchema", err)
			}
		})
	}
}

func TestOpenAgainAfterAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	db := newDB(t, "sqlite:"+dir+"/b/holter.db")
	err := db.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "create the directory above") {
		t.Errorf("Open in a directory that cannot be made: %v", err)
	}
	if db.Health() == nil {
		t.Error("Health is nil")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := db.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.Health(); err != nil {
		t.Errorf("Health: %v", err)
	}
	info, err := os.Stat(dir + "/b/holter.db")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v, want mode 0600", info, err)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("what?"), "what?"},
		{sqldb.ErrFenced, sqldb.ErrFenced.Error()},
		{fmt.Errorf("x: %w", syscall.ENOSPC), "disk full: free space on the file system of the data directory"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EROFS}, "read-only file system"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, "permission denied"},
		{syscall.ECONNREFUSED, "connection refused"},
		{context.DeadlineExceeded, "no answer in time"},
		{syscall.ECONNRESET, "the connection to the server was lost"},
	} {
		if got := sqldb.Explain(c.err); !strings.HasPrefix(got, c.want) {
			t.Errorf("Explain(%v) = %q, want %q", c.err, got, c.want)
		}
	}
}

// A log that lies aside is known before the database is opened.
func TestLogAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holter.db")
	db := newDB(t, "sqlite:"+path)
	if got := db.LogAside(); got != "" {
		t.Errorf("LogAside of a new database = %q", got)
	}
	if err := os.WriteFile(path+".lost-wal", []byte("frames"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := db.LogAside(); got != path+".lost-wal" {
		t.Errorf("LogAside = %q", got)
	}
}
