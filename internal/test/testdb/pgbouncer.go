package testdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pgbouncer is a pooler before a PostgreSQL server.
type pgbouncer struct {
	server *Server
	mode   string // session, transaction or statement
	more   string // settings
}

func (pgbouncer) name() string { return "pgbouncer" }

func (pgbouncer) signal() string { return "KILL" }

func (pgbouncer) programs() []string { return []string{"pgbouncer"} }

func (pgbouncer) install(string, func(string, ...string) *exec.Cmd) error { return nil }

func (p pgbouncer) serve(dir string, port int) (program string, args []string, err error) {
	file := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=%s password=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = %s\n%s\n", p.server.port, user, password, port, p.mode, p.more)
	return "pgbouncer", []string{"-q", file}, os.WriteFile(file, []byte(text), 0o644) // of a test's pooler
}

// ready pings through the pooler, in a way that all modes allow.
func (pgbouncer) ready(ctx context.Context, _ string, port int) error {
	db, err := sql.Open("pgx", postgres{}.url(port, "postgres")+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		return err
	}
	return errors.Join(db.PingContext(ctx), db.Close())
}

func (p pgbouncer) create(ctx context.Context, port int, _ string) (string, error) {
	url, err := p.server.newDatabase(ctx)
	return strings.Replace(url, address(p.server.port), address(port), 1), err
}

// PgBouncer returns the URL of an empty database on the test binary's PostgreSQL server, behind a pooler of the
// test's own. mode is session, transaction or statement; settings are more lines of its configuration.
func PgBouncer(tb testing.TB, mode string, settings ...string) string {
	tb.Helper()
	server := sharedServer(tb, &shared.postgres, postgres{})
	pooler := ownServer(tb, pgbouncer{server, mode, strings.Join(settings, "\n")})
	return pooler.Database(tb)
}
