package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// postgresDB is a PostgreSQL server.
type postgresDB struct {
	config *pgx.ConnConfig
}

func (b *postgresDB) place() string {
	return fmt.Sprintf("PostgreSQL at %s, database %s", net.JoinHostPort(b.config.Host, strconv.Itoa(int(b.config.Port))), b.config.Database)
}

func (b *postgresDB) dialect() goose.Dialect { return goose.DialectPostgres }

func (b *postgresDB) prepare() error { return nil }

// connector returns the configuration of a connection. It tells the server which process this is,
// and to notice soon when the process is gone.
func (b *postgresDB) connector() pgx.ConnConfig {
	cfg := b.config.Copy()
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	cfg.RuntimeParams["standard_conforming_strings"] = "on" // statements and the driver rely on it
	for key, value := range map[string]string{
		"application_name":        applicationName(),
		"tcp_keepalives_idle":     "10",
		"tcp_keepalives_interval": "5",
		"tcp_keepalives_count":    "3",
	} {
		if _, ok := cfg.RuntimeParams[key]; !ok {
			cfg.RuntimeParams[key] = value
		}
	}
	return *cfg
}

// connect returns a pool of connections.
func (b *postgresDB) connect() *sql.DB {
	const limit = "idle_in_transaction_session_timeout"
	cfg := b.connector()
	return stdlib.OpenDB(cfg, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		if _, ok := cfg.RuntimeParams[limit]; ok {
			return nil
		}
		_, err := conn.Exec(ctx, fmt.Sprintf("SET %s = %d", limit, idleLimit.Milliseconds())) // a pooler may not let it through otherwise
		return err
	}))
}

// applicationName describes this process for people who look at the connections of the server.
func applicationName() string {
	host, _ := os.Hostname() // empty if it has none
	return fmt.Sprintf("holter %d@%.40s", os.Getpid(), host)
}

func (b *postgresDB) pools() (write, read *sql.DB) {
	write, read = b.connect(), b.connect()
	bound(write)
	bound(read)
	return write, read
}

// bound limits a pool of connections to a server.
func bound(db *sql.DB) {
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(5 * time.Minute)
}

func (b *postgresDB) leasePool() *sql.DB {
	db := b.connect()
	db.SetMaxOpenConns(1)
	return db
}

func (b *postgresDB) upsert(key string, columns ...string) string { return onConflict(key, columns) }

// insert sends all rows in one statement.
func (b *postgresDB) insert(ctx context.Context, tx *sql.Tx, t *Table, n int, row func(args []any, i int) []any) error {
	rows, args := unnest(t, n, row)
	_, err := tx.ExecContext(ctx, t.begin()+" SELECT * FROM "+rows+t.end(b), args...)
	return err
}

// remove sends all keys in one statement.
func (b *postgresDB) remove(ctx context.Context, tx *sql.Tx, t *Table, n int, key func(args []any, i int) []any) error {
	keys, args := unnest(t, n, key)
	_, err := tx.ExecContext(ctx, "DELETE FROM "+t.Name+" WHERE ("+t.Columns()+") IN (SELECT * FROM "+keys+")", args...)
	return err
}

// unnest returns n rows as something to select from, and its arguments: each column as an array.
func unnest(t *Table, n int, row func(args []any, i int) []any) (rows string, args []any) {
	ints, texts, blobs := columnsOf[int64](t.Ints, n), columnsOf[string](t.Texts, n), columnsOf[[]byte](t.Blobs, n)
	var values []any
	for i := range n {
		values = row(values[:0], i)
		fill(ints, values, i)
		fill(texts, values[len(ints):], i)
		fill(blobs, values[len(ints)+len(texts):], i)
	}
	var marks []string
	add := func(column any, kind string) {
		args = append(args, column)
		marks = append(marks, fmt.Sprintf("$%d::%s[]", len(args), kind))
	}
	for _, c := range ints {
		add(c, "bigint")
	}
	for _, c := range texts {
		add(c, "text")
	}
	for _, c := range blobs {
		add(c, "bytea")
	}
	return "unnest(" + strings.Join(marks, ", ") + ")", args
}

// columnsOf makes the columns of n rows.
func columnsOf[T any](names []string, n int) [][]T {
	columns := make([][]T, len(names))
	for c := range columns {
		columns[c] = make([]T, n)
	}
	return columns
}

// fill puts the first values into row i of the columns.
func fill[T any](columns [][]T, values []any, i int) {
	for c := range columns {
		columns[c][i] = values[c].(T)
	}
}

func (b *postgresDB) clock() string {
	return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS bigint)"
}

func (b *postgresDB) largest(context.Context, Querier) (int64, error) { return gigabyte, nil }

func (b *postgresDB) size() int64 { return 0 }
