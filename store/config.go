package store

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/holter-iot/holter/internal/shm"
)

// ErrBadURL is wrapped by what [New] and [OpenTokens] return for a database URL that cannot be right.
var ErrBadURL = errors.New("store: bad database URL")

// Config says where a store is and what it keeps.
type Config struct {
	// URL is the database. Required. One of
	//
	//	sqlite:path/to/file.db or sqlite:///path/to/file.db
	//	postgres://user:password@host:5432/database (and what pgx allows behind a ?, such as sslmode=verify-full)
	//	mysql://user:password@host:3306/database (behind a ?: socket=/path and tls=true, skip-verify or preferred)
	URL string
	// Dir is a directory of this process for a note of which database it keeps the fleet in. Default: that of an SQLite database; without
	// one, a database that is empty all at once counts as new, and there is no Memory.
	Dir string
	// AcceptLoss begins a new fleet where one is missing that a note tells of, see [ErrLost].
	AcceptLoss bool
	// Memory is a directory on a tmpfs for memory that outlives the process: kill -9 loses no heartbeat then. Default: /dev/shm. [NoMemory],
	// or a system or directory without such memory, leaves the checkpoints: what was heard after the last one of a process that ended in
	// disorder is not known, and its devices count as heard at it.
	Memory string
	// Checkpoint is how often [Store.Run] writes the heartbeats and the clocks down: what of them a crash may cost. Default: 5 s.
	Checkpoint time.Duration
	// Keep is how many events are kept. Default: 10,000,000.
	Keep int
	// MaxAge is how long an event is kept. A wall clock that is ahead for less than a day makes no event too old but those of as much time as
	// it was wrong for. Default: 30 days.
	MaxAge time.Duration
	// Cache is how many of the latest events are kept in memory for those who read along. Default: 100,000.
	Cache int
	// Outbox makes jobs of events, which are committed together with them. Default: none.
	Outbox Outbox
}

func (c Config) withDefaults() (Config, error) {
	if c.Checkpoint == 0 {
		c.Checkpoint = 5 * time.Second
	}
	if c.Memory == "" {
		c.Memory = shm.DefaultDir
	}
	if c.Keep == 0 {
		c.Keep = 10_000_000
	}
	if c.MaxAge == 0 {
		c.MaxAge = 30 * 24 * time.Hour
	}
	if c.Cache == 0 {
		c.Cache = 100_000
	}
	var errs []error
	reject := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("store: "+format, args...))
		}
	}
	reject(c.Checkpoint < 0, "Checkpoint is %v, want more than 0", c.Checkpoint)
	reject(c.Keep < 0, "Keep is %d, want 1 or more", c.Keep)
	reject(c.MaxAge < 0, "MaxAge is %v, want more than 0", c.MaxAge)
	reject(c.Cache < 0, "Cache is %d, want 1 or more", c.Cache)
	c.Cache = min(c.Cache, c.Keep)
	return c, errors.Join(errs...)
}

// backendOf says which database a URL means. It connects to nothing. Its errors name no password.
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
	if err != nil { // its text has the password taken out, but may have the rest of the URL
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

// parseURL is url.Parse with errors that do not repeat the URL.
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
	if strings.Contains(raw, "@") { // the cause may quote what lies before it
		cause = "it is no URL; a password has special characters percent-encoded, such as %40 for @ and %2F for /"
	}
	return nil, fmt.Errorf("%w: %s", ErrBadURL, cause)
}
