package testdb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// shared are the servers of the test binary, started when they are first asked for.
//
//nolint:gochecknoglobals // one server per test binary is the point
var shared struct {
	mu       sync.Mutex // guards the fields below; held while a server starts
	postgres *Server
	mariadb  *Server
	failed   map[string]error // by kind; a server that did not start is not tried again
}

// Postgres returns the URL of an empty database on the test binary's PostgreSQL server, which does not wait for the disk.
func Postgres(tb testing.TB) string {
	tb.Helper()
	return sharedServer(tb, &shared.postgres, postgres{}).Database(tb)
}

// MariaDB returns the URL of an empty database on the test binary's MariaDB server, which does not wait for the disk.
func MariaDB(tb testing.TB) string {
	tb.Helper()
	return sharedServer(tb, &shared.mariadb, mariadb{}).Database(tb)
}

// NewPostgres returns a PostgreSQL server of the test's own. One that is durable has each commit on the disk.
func NewPostgres(tb testing.TB, durable bool) *Server {
	tb.Helper()
	return ownServer(tb, postgres{durable})
}

// NewMariaDB returns a MariaDB server of the test's own. One that is durable has each commit on the disk.
func NewMariaDB(tb testing.TB, durable bool) *Server {
	tb.Helper()
	return ownServer(tb, mariadb{durable})
}

func sharedServer(tb testing.TB, at **Server, k kind) *Server {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if err := shared.failed[k.name()]; err != nil {
		tb.Fatal(err)
	}
	if *at == nil {
		need(tb, k.name(), k.programs()...)
		s, err := newServer(k)
		if err != nil {
			if shared.failed == nil {
				shared.failed = make(map[string]error)
			}
			shared.failed[k.name()] = err
			tb.Fatal(err)
		}
		*at = s
	}
	return *at
}

func ownServer(tb testing.TB, k kind) *Server {
	tb.Helper()
	need(tb, k.name(), k.programs()...)
	s, err := newServer(k)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Need skips the test if a server of a kind, "postgres" or "mariadb", is not installed, or fails it
// if it must be.
func Need(tb testing.TB, name string) {
	tb.Helper()
	for _, k := range []kind{postgres{}, mariadb{}} {
		if k.name() == name {
			need(tb, k.name(), k.programs()...)
		}
	}
}

// need skips the test if programs are missing, or fails it if they must not be.
func need(tb testing.TB, name string, programs ...string) {
	tb.Helper()
	for _, program := range programs {
		if _, err := find(program); err != nil {
			if os.Getenv("HOLTER_TEST_DATABASES") == "all" {
				tb.Fatalf("%s: %v; run test/setup.sh as root, or install it (HOLTER_TEST_DATABASES=all asks for it)", name, err)
			}
			tb.Skipf("NOT TESTED with %s: %v; run test/setup.sh as root, or install it", name, err)
		}
	}
}

// find returns the path of a program, in PATH or where distributions hide it.
func find(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin",
	} {
		found, err := filepath.Glob(filepath.Join(pattern, program))
		if err == nil && len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("the program %s is neither in PATH nor where it usually is", program)
}

// Runner is a *testing.M, or what wraps one.
type Runner interface{ Run() int }

// Main returns a runner that runs the tests of m and then ends the servers. Use it in TestMain:
//
//	goleak.VerifyTestMain(testdb.Main(m))
func Main(m Runner) Runner { return runner{m} }

type runner struct{ tests Runner }

func (r runner) Run() int {
	defer func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		for _, s := range []*Server{shared.postgres, shared.mariadb} {
			if s != nil {
				s.Close()
			}
		}
		shared.postgres, shared.mariadb = nil, nil
	}()
	return r.tests.Run()
}
