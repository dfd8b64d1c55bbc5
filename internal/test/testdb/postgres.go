package testdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
)

type postgres struct{ durable bool }

func (postgres) name() string { return "postgres" }

func (postgres) signal() string { return "QUIT" }

func (postgres) programs() []string { return []string{"postgres", "initdb"} }

func (postgres) install(dir string, command func(string, ...string) *exec.Cmd) error {
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o644); err != nil { // of a test's server
		return err
	}
	out, err := command("initdb", "--pgdata="+filepath.Join(dir, "data"), "--username="+user, "--pwfile="+file, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func (p postgres) serve(dir string, port int) (program string, args []string, err error) {
	args = []string{
		"-D", filepath.Join(dir, "data"), "-k", filepath.Join(dir, "run"), "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300", "-c", "shared_buffers=128MB", "-c", "max_wal_size=2GB",
	}
	if !p.durable {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off",
			"-c", "wal_init_zero=off", "-c", "autovacuum=off", "-c", "checkpoint_timeout=1h") // they would go through hundreds of databases that nobody uses any more
	}
	return "postgres", args, nil
}

func (postgres) url(port int, database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", user, password, port, database)
}

// with opens a database for a moment.
func (p postgres) with(port int, database string, do func(db *sql.DB) error) error {
	db, err := sql.Open("pgx", p.url(port, database))
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

func (p postgres) ready(ctx context.Context, _ string, port int) error {
	return p.with(port, "postgres", func(db *sql.DB) error { return db.PingContext(ctx) })
}

func (p postgres) create(ctx context.Context, port int, database string) (string, error) {
	return p.url(port, database), p.exec(ctx, port, "CREATE DATABASE "+database)
}

func (p postgres) exec(ctx context.Context, port int, statement string) error {
	return p.with(port, "postgres", func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
}
