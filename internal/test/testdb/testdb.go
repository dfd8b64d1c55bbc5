package testdb

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// shared are the servers of the test binary, started when they are first asked for. Those that were announced are of whoever runs the
// tests.
//
//nolint:gochecknoglobals // one server per test binary is the point
var shared struct {
	mu       sync.Mutex // guards the fields below; held while a server starts
	postgres *Server
	mariadb  *Server
	failed   map[string]error // by kind; a server that did not start is not tried again
}

// Postgres returns the URL of a database on the test binary's PostgreSQL server, which does not wait for the disk. It has the tables of the
// program, as if nobody had opened it yet.
func Postgres(tb testing.TB) string {
	tb.Helper()
	return sharedServer(tb, &shared.postgres, postgres{}).withTables(tb)
}

// EmptyPostgres is [Postgres] without tables.
func EmptyPostgres(tb testing.TB) string {
	tb.Helper()
	return sharedServer(tb, &shared.postgres, postgres{}).Database(tb)
}

// MariaDB returns the URL of a database on the test binary's MariaDB server, as [Postgres] does.
func MariaDB(tb testing.TB) string {
	tb.Helper()
	return sharedServer(tb, &shared.mariadb, mariadb{}).withTables(tb)
}

// EmptyMariaDB is [MariaDB] without tables.
func EmptyMariaDB(tb testing.TB) string {
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
		s, err := announced(k)
		if s == nil && err == nil {
			need(tb, k.name(), k.programs()...)
			s, err = newServer(k)
		}
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

// Need ends the test if a server of a kind, "postgres" or "mariadb", is not installed, see [testenv.Missing].
func Need(tb testing.TB, name string) {
	tb.Helper()
	for _, k := range []kind{postgres{}, mariadb{}} {
		if k.name() == name {
			need(tb, k.name(), k.programs()...)
		}
	}
}

// need ends the test if programs are missing, see [testenv.Missing].
func need(tb testing.TB, name string, programs ...string) {
	tb.Helper()
	for _, program := range programs {
		if _, err := testenv.Find(program); err != nil {
			testenv.Missing(tb, fmt.Sprintf("%s: %v", name, err))
		}
	}
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
