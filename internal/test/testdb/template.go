package testdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holter-iot/holter/internal/sqldb"
)

// copier is a kind of server that copies databases faster than the migrations make one.
type copier interface {
	// copies returns a function that makes a copy of a database, which nobody uses, and returns its URL.
	copies(ctx context.Context, port int, database string) (func(ctx context.Context, name string) (url string, err error), error)
}

// template is a migrated database of a server, for this process.
type template struct {
	once sync.Once
	copy func(ctx context.Context, name string) (url string, err error)
	err  error
}

// migrated makes a database that has the tables of the program, as if each test had run the migrations: nobody has had it open, so it has
// no identity and no judge yet.
func (s *Server) migrated(ctx context.Context) (string, error) {
	s.template.once.Do(func() {
		if s.template.copy, s.template.err = s.makeTemplate(ctx); s.template.err != nil {
			s.template.err = fmt.Errorf("testdb: make a template: %w\n%s", s.template.err, s.logEnd())
		}
	})
	if s.template.err != nil {
		return "", s.template.err
	}
	return s.template.copy(ctx, s.newName())
}

// withTables is migrated for tests.
func (s *Server) withTables(tb testing.TB) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	url, err := s.migrated(ctx)
	must(tb, err)
	return url
}

func (s *Server) makeTemplate(ctx context.Context) (func(context.Context, string) (string, error), error) {
	name := s.newName()
	url, err := s.kind.create(ctx, s.port, name)
	if err != nil {
		return nil, err
	}
	if err := makeTables(ctx, url); err != nil {
		return nil, err
	}
	return s.kind.(copier).copies(ctx, s.port, name)
}

func makeTables(ctx context.Context, url string) error {
	db, err := sqldb.OpenShared(ctx, sqldb.Config{URL: url})
	if err != nil {
		return err
	}
	return db.Close()
}

// neverJudged undoes what the lease under which the migrations ran has left.
const neverJudged = "UPDATE judge SET term = 0, taken = 0, lease = 0"

func (p postgres) copies(ctx context.Context, port int, database string) (func(context.Context, string) (string, error), error) {
	err := p.with(port, database, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, neverJudged)
		return err
	})
	return func(ctx context.Context, name string) (string, error) {
		return p.url(port, name), p.exec(ctx, port, "CREATE DATABASE "+name+" TEMPLATE "+database)
	}, err
}

func (m mariadb) copies(ctx context.Context, port int, database string) (func(context.Context, string) (string, error), error) {
	var script string
	err := m.with(login(port, database), func(db *sql.DB) (err error) {
		if _, err = db.ExecContext(ctx, neverJudged); err == nil {
			script, err = dump(ctx, db, database)
		}
		return err
	})
	return func(ctx context.Context, name string) (string, error) {
		cfg := login(port, "")
		cfg.MultiStatements = true
		return m.url(port, name), m.with(cfg, func(db *sql.DB) error {
			_, err := db.ExecContext(ctx, "CREATE DATABASE "+name+"; USE "+name+"; "+script)
			return err
		})
	}, err
}

// dump returns statements that make the tables and views of a database, and copy its rows.
func dump(ctx context.Context, db *sql.DB, database string) (string, error) {
	names, err := db.QueryContext(ctx, "SELECT table_name, table_type = 'VIEW' FROM information_schema.tables WHERE table_schema = ? ORDER BY 2, 1", database)
	if err != nil {
		return "", err
	}
	defer func() { _ = names.Close() }()
	var script strings.Builder
	for names.Next() {
		var name, create string
		var view bool
		if err := names.Scan(&name, &view); err != nil {
			return "", err
		}
		rest := []any{&name, &create}
		if view {
			rest = append(rest, new(string), new(string)) // its character set and collation
		}
		if err := db.QueryRowContext(ctx, "SHOW CREATE TABLE "+name).Scan(rest...); err != nil {
			return "", err
		}
		script.WriteString(create + ";\n")
		if !view {
			fmt.Fprintf(&script, "INSERT INTO %s SELECT * FROM %s.%[1]s;\n", name, database)
		}
	}
	return script.String(), names.Err()
}

// file is what [SQLite] copies, made when it is first asked for.
//
//nolint:gochecknoglobals // one per test binary is the point
var file = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "holter-sqlite-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "holter.db")
	if err := makeTables(context.Background(), "sqlite:"+path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// SQLite returns the URL of a database in a file, with the tables of the program and as if nobody had opened it yet.
func SQLite(tb testing.TB) string {
	tb.Helper()
	content, err := file()
	must(tb, err)
	url := EmptySQLite(tb)
	path := url[len("sqlite:"):]
	must(tb, os.Mkdir(filepath.Dir(path), 0o700))
	must(tb, os.WriteFile(path, content, 0o600))
	return url
}

// login returns the settings for a database of a MariaDB server.
func login(port int, database string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", address(port), user, password, database
	return cfg
}
