//go:build linux

package chaos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// postgres is PostgreSQL.
type postgres struct{}

func (postgres) install(ctx context.Context, dir string) (*exec.Cmd, error) {
	return installed(ctx, "initdb", "-D", dir, "-U", databaseUser, "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
}

func (postgres) serve(ctx context.Context, dir string, port int) (*exec.Cmd, error) {
	return installed(ctx, "postgres", "-D", dir, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=32MB")
}

func (postgres) ready(ctx context.Context, port int) bool {
	cmd, err := installed(ctx, "pg_isready", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(port))
	return err == nil && cmd.Run() == nil
}

func (postgres) url(port int) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", databaseUser, port)
}

// mariadb is MariaDB.
type mariadb struct{}

// mariadbSetup is run at each start, before connections are taken: a statement a line.
const mariadbSetup = `CREATE DATABASE IF NOT EXISTS holter;
CREATE OR REPLACE USER holter@'127.0.0.1' IDENTIFIED BY 'holter';
GRANT ALL ON holter.* TO holter@'127.0.0.1';
`

func (mariadb) install(ctx context.Context, dir string) (*exec.Cmd, error) {
	if err := os.WriteFile(filepath.Join(dir, "setup.sql"), []byte(mariadbSetup), 0o644); err != nil { // its user reads it
		return nil, err
	}
	return installed(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+filepath.Join(dir, "data"), "--tmpdir="+dir,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
}

func (mariadb) serve(ctx context.Context, dir string, port int) (*exec.Cmd, error) {
	return installed(ctx, "mariadbd", "--no-defaults", "--datadir="+filepath.Join(dir, "data"), "--tmpdir="+dir,
		"--socket="+filepath.Join(dir, "socket"), "--pid-file="+filepath.Join(dir, "pid"), "--port="+strconv.Itoa(port), "--bind-address=127.0.0.1",
		"--skip-name-resolve", "--init-file="+filepath.Join(dir, "setup.sql"), "--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=2")
}

func (mariadb) ready(ctx context.Context, port int) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", local(port))
	return err == nil && conn.Close() == nil
}

func (mariadb) url(port int) string {
	return fmt.Sprintf("mysql://holter:holter@127.0.0.1:%d/holter", port)
}
