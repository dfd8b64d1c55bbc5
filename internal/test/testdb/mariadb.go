package testdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/go-sql-driver/mysql"
)

type mariadb struct{ durable bool }

func (mariadb) name() string { return "mariadb" }

func (mariadb) signal() string { return "KILL" }

func (mariadb) programs() []string { return []string{"mariadbd", "mariadb-install-db"} }

func (mariadb) install(dir string, command func(string, ...string) *exec.Cmd) error {
	out, err := command("mariadb-install-db", "--no-defaults", "--datadir="+filepath.Join(dir, "data"), "--tmpdir="+filepath.Join(dir, "run"),
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve").CombinedOutput()
	if err != nil {
		return fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	return nil
}

func (m mariadb) serve(dir string, port int) (program string, args []string, err error) {
	args = []string{
		"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--tmpdir=" + filepath.Join(dir, "run"),
		"--socket=" + socket(dir), "--pid-file=" + filepath.Join(dir, "run", "pid"), "--port=" + strconv.Itoa(port),
		"--bind-address=127.0.0.1", "--skip-name-resolve", "--innodb-buffer-pool-size=256M", "--max-connections=300",
	}
	if m.durable {
		return "mariadbd", append(args, "--innodb-log-file-size=256M"), nil
	}
	// Besides the waiting for the disk, most of what a new database costs are the files of its tables.
	args = append(args, "--debug-no-sync", "--skip-sync-frm", "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync",
		"--skip-innodb-doublewrite", "--skip-innodb-file-per-table")
	return "mariadbd", args, nil
}

func socket(dir string) string { return filepath.Join(dir, "run", "socket") }

// with opens a server for a moment.
func (mariadb) with(cfg *mysql.Config, do func(db *sql.DB) error) error {
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	return errors.Join(do(db), db.Close())
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func (m mariadb) ready(ctx context.Context, dir string, port int) error {
	ping := func(db *sql.DB) error { return db.PingContext(ctx) }
	err := m.with(login(port, ""), ping)
	if _, denied := errors.AsType[*mysql.MySQLError](err); !denied {
		return err
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User = "unix", socket(dir), "root"
	return m.with(cfg, func(root *sql.DB) error { // the first time; root may come in through the socket only
		for _, statement := range []string{
			"CREATE OR REPLACE USER " + user + "@'127.0.0.1' IDENTIFIED BY '" + password + "'",
			"GRANT ALL ON *.* TO " + user + "@'127.0.0.1' WITH GRANT OPTION",
		} {
			if _, err := root.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m mariadb) create(ctx context.Context, port int, database string) (string, error) {
	err := m.with(login(port, ""), func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "CREATE DATABASE "+database)
		return err
	})
	return m.url(port, database), err
}

func (mariadb) url(port int, database string) string {
	return fmt.Sprintf("mysql://%s:%s@%s/%s", user, password, address(port), database)
}
