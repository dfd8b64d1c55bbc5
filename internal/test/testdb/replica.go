package testdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Replica starts a program that receives what a PostgreSQL server commits, as a synchronous standby may, until
// the test ends.
func (s *Server) Replica(tb testing.TB) {
	tb.Helper()
	need(tb, "replica", "pg_receivewal")
	receiver := s.command("pg_receivewal", "-D", s.path("run"), "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", user, "--synchronous")
	receiver.Env = append(receiver.Env, "PGPASSWORD="+password)
	must(tb, receiver.Start())
	tb.Cleanup(func() {
		_ = receiver.Process.Kill()
		_ = receiver.Wait() // it was killed
	})
}

// standby is a PostgreSQL server that follows another one until it is promoted.
type standby struct {
	postgres

	primary string // address
}

func (k standby) programs() []string { return append(k.postgres.programs(), "pg_basebackup") }

func (k standby) install(dir string, command func(string, ...string) *exec.Cmd) error {
	host, port, err := net.SplitHostPort(k.primary)
	if err != nil {
		return err
	}
	conn := fmt.Sprintf("host=%s port=%s user=%s password=%s", host, port, user, password)
	out, err := command("pg_basebackup", "-D", filepath.Join(dir, "data"), "-d", conn, "-R", "-c", "fast", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return nil
}

// NewStandby starts a PostgreSQL server that follows the one at an address, HOST:PORT, as New does for a server without
// data. It has each commit on the disk.
func NewStandby(primary string) (*Server, error) {
	return newServer(standby{postgres{durable: true}, primary})
}

// Address returns where the server listens, as HOST:PORT.
func (s *Server) Address() string { return address(s.port) }

// Promote makes a standby take writes. It returns when it does.
func (s *Server) Promote() error {
	return s.ask(func(ctx context.Context, db *sql.DB) error {
		var done bool
		err := db.QueryRowContext(ctx, "SELECT pg_promote()").Scan(&done)
		if err == nil && !done {
			err = errors.New("it is still a standby")
		}
		return err
	})
}

// AwaitStandby waits until a standby of a PostgreSQL server has all that was committed before. From then on commits wait for
// it if they are to.
func (s *Server) AwaitStandby(commitsWait bool) error {
	names, want := "", "async"
	if commitsWait {
		names, want = "*", "sync"
	}
	return s.ask(func(ctx context.Context, db *sql.DB) error {
		for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		var now string
		if err := db.QueryRowContext(ctx, "SELECT pg_current_wal_lsn()").Scan(&now); err != nil {
			return err
		}
		for there := false; !there; {
			err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = $1 AND flush_lsn >= $2)",
				want, now).Scan(&there)
			if err == nil && !there {
				err = pause(ctx, 20*time.Millisecond)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// ask speaks with a PostgreSQL server.
func (s *Server) ask(do func(ctx context.Context, db *sql.DB) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := postgres{}.with(s.port, "postgres", func(db *sql.DB) error { return do(ctx, db) })
	if err != nil {
		err = fmt.Errorf("testdb: %w", err)
	}
	return err
}
