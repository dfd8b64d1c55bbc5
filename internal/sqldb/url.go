package sqldb

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// ErrBadURL is wrapped by errors of [New] about a URL that cannot be right.
var ErrBadURL = errors.New("sqldb: bad database URL")

// backendOf returns the database that a URL means. It connects to nothing. Its errors never show a
// password.
func backendOf(raw string) (backend, error) {
	scheme, rest, found := strings.Cut(raw, ":")
	if raw == "" || !found {
		return nil, fmt.Errorf("%w: it must begin with sqlite:, postgres: or mysql:, as in sqlite:holter.db", ErrBadURL)
	}
	switch strings.ToLower(scheme) {
	case "sqlite", "sqlite3", "file":
		return sqliteOf(rest)
	case "postgres", "postgresql":
		return postgresOf(raw)
	case "mysql", "mariadb":
		return mysqlOf(raw)
	}
	return nil, fmt.Errorf("%w: %q is no database that is known here, want sqlite, postgres or mysql", ErrBadURL, scheme)
}

func sqliteOf(rest string) (backend, error) {
	if host, ok := strings.CutPrefix(rest, "//"); ok {
		if !strings.HasPrefix(host, "/") {
			return nil, fmt.Errorf("%w: write sqlite:%s for a path in this directory, or sqlite:///%[2]s for one from the root", ErrBadURL, host)
		}
		rest = host
	}
	switch {
	case rest == "" || strings.HasSuffix(rest, "/"):
		return nil, fmt.Errorf("%w: sqlite: needs the path of a file, as in sqlite:holter.db", ErrBadURL)
	case strings.ContainsAny(rest, "?#\x00"):
		return nil, fmt.Errorf("%w: the path of the SQLite file must not contain ? or #, and takes no options", ErrBadURL)
	case rest == ":memory:":
		return nil, fmt.Errorf("%w: sqlite::memory: keeps nothing; give the path of a file", ErrBadURL)
	}
	path, err := filepath.Abs(rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadURL, err)
	}
	return &sqliteDB{path: path}, nil
}

func postgresOf(raw string) (backend, error) {
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	cfg, err := pgx.ParseConfig(raw)
	if err != nil { // its text leaves the password out, but may show the rest of the URL
		return nil, fmt.Errorf("%w: PostgreSQL's reads postgres://user:password@host:5432/database; check host, port and options", ErrBadURL)
	}
	if strings.Trim(u.Path, "/") == "" && !u.Query().Has("dbname") && !u.Query().Has("database") {
		return nil, fmt.Errorf("%w: it names no database, as in postgres://%s/holter", ErrBadURL, u.Host)
	}
	return &postgresDB{config: cfg}, nil
}

func mysqlOf(raw string) (backend, error) {
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.DBName = strings.Trim(u.Path, "/")
	if cfg.DBName == "" || strings.Contains(cfg.DBName, "/") {
		return nil, fmt.Errorf("%w: it names no database, as in mysql://%s/holter", ErrBadURL, u.Host)
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	host := u.Hostname()
	if host == "" {
		host = "localhost"
	}
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(host, port)
	for key, values := range u.Query() {
		value := values[len(values)-1]
		switch key {
		case "socket":
			cfg.Net, cfg.Addr = "unix", value
		case "tls":
			cfg.TLSConfig = value
		default:
			return nil, fmt.Errorf("%w: option %q is not known, want socket or tls", ErrBadURL, key)
		}
	}
	switch cfg.TLSConfig {
	case "", "true", "false", "skip-verify", "preferred":
	default:
		return nil, fmt.Errorf("%w: tls=%s, want true, false, skip-verify or preferred", ErrBadURL, cfg.TLSConfig)
	}
	return &mysqlDB{config: cfg}, nil
}

// parseURL is url.Parse with errors that do not show the URL.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err == nil {
		if u.Opaque != "" {
			return nil, fmt.Errorf("%w: after %s: want //user:password@host/database", ErrBadURL, u.Scheme)
		}
		return u, nil
	}
	cause := err.Error()
	if bad, ok := errors.AsType[*url.Error](err); ok {
		cause = bad.Err.Error()
	}
	if strings.Contains(raw, "@") { // the cause may quote the password before it
		cause = "it is no URL; a password has special characters percent-encoded, such as %40 for @ and %2F for /"
	}
	return nil, fmt.Errorf("%w: %s", ErrBadURL, cause)
}
