package store

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/schema"
)

// postgresDB is a PostgreSQL server.
type postgresDB struct {
	config *pgx.ConnConfig
}

func (b *postgresDB) place() string {
	return fmt.Sprintf("PostgreSQL at %s, database %s", net.JoinHostPort(b.config.Host, strconv.Itoa(int(b.config.Port))), b.config.Database)
}

func (b *postgresDB) dialect() (goose.Dialect, schema.Dialect) {
	return goose.DialectPostgres, pgdialect.New()
}

func (b *postgresDB) prepare() error { return nil }

// connector returns the configuration of a connection. The server is told who we are, and to notice soon when we are gone.
func (b *postgresDB) connector() pgx.ConnConfig {
	cfg := b.config.Copy()
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	cfg.RuntimeParams["standard_conforming_strings"] = "on" // bun relies on it
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

// applicationName says which process this is, for whoever finds the database locked.
func applicationName() string {
	host, _ := os.Hostname() // empty if it has none
	return fmt.Sprintf("holter %d@%.40s", os.Getpid(), host)
}

func (b *postgresDB) pools() (write, read *sql.DB) {
	write, read = stdlib.OpenDB(b.connector()), stdlib.OpenDB(b.connector())
	bound(write)
	bound(read)
	return write, read
}

// bound bounds a pool of connections to a server.
func bound(db *sql.DB) {
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(5 * time.Minute)
}

// postgresLockKey is the number of the advisory lock, which is per database.
const postgresLockKey = 0x686f6c746572

func (b *postgresDB) lock(ctx context.Context) (lock, error) {
	db := stdlib.OpenDB(b.connector())
	db.SetMaxOpenConns(1)
	return newSessionLock(ctx, db, lockQueries{
		take: fmt.Sprintf("SELECT CASE WHEN pg_try_advisory_lock(%d) THEN 1 ELSE 0 END", postgresLockKey),
		holder: fmt.Sprintf(`SELECT a.application_name || ', connected since ' || to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS TZ')
			FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %d AND l.objid = %d LIMIT 1`, postgresLockKey>>32, postgresLockKey&0xffffffff),
	})
}

func (b *postgresDB) bindVar(n int) string { return "$" + strconv.Itoa(n) }

func (b *postgresDB) upsert(key string, columns ...string) string { return onConflict(key, columns) }

func (b *postgresDB) insertDevices(ctx context.Context, tx *sql.Tx, rows []stateRow) error {
	nums, ids := make([]int64, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		nums[i], ids[i] = int64(r.record.Num), r.record.ID
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO devices (num, id) SELECT * FROM unnest($1::bigint[], $2::text[])", nums, ids)
	return err
}

func (b *postgresDB) putStates(ctx context.Context, tx *sql.Tx, rows []stateRow) error {
	ints, columns := columnsOf(stateInts, len(rows))
	announced, own, changes := make([]string, len(rows)), make([]string, len(rows)), make([][]byte, len(rows))
	for i := range rows {
		for c, v := range rows[i].ints() {
			ints[c][i] = v
		}
		rec := rows[i].record
		announced[i], own[i], changes[i] = policyText(rec.Announced), policyText(rec.Own), packChanges(rec.Changes)
	}
	query := "INSERT INTO device_states (" + stateColumns + ") SELECT * FROM unnest(" + unnested(stateInts, "text", "text", "bytea") + ")" +
		b.upsert("num", "state", "reason", "source", "heard", "until_at", "since", "seq", "epoch", "flags", "head", "announced", "own", "changes")
	_, err := tx.ExecContext(ctx, query, append(columns, announced, own, changes)...)
	return err
}

func (b *postgresDB) insertEvents(ctx context.Context, tx *sql.Tx, rows []eventRow) error {
	ints, columns := columnsOf(eventInts, len(rows))
	subjects, messages := make([]string, len(rows)), make([]string, len(rows))
	for i := range rows {
		for c, v := range rows[i].ints() {
			ints[c][i] = v
		}
		subjects[i], messages[i] = rows[i].event.Subject, rows[i].event.Message
	}
	query := "INSERT INTO events (" + eventColumns + ") SELECT * FROM unnest(" + unnested(eventInts, "text", "text") + ")"
	_, err := tx.ExecContext(ctx, query, append(columns, subjects, messages)...)
	return err
}

func (b *postgresDB) insertJobs(ctx context.Context, tx *sql.Tx, rows []jobRow) error {
	ints, columns := columnsOf(4, len(rows))
	for i := range rows {
		for c, v := range rows[i].ints() {
			ints[c][i] = v
		}
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO jobs ("+jobColumns+") SELECT * FROM unnest("+unnested(4)+")", columns...)
	return err
}

// columnsOf returns n columns of numbers, and the same as arguments.
func columnsOf(n, rows int) (columns [][]int64, args []any) {
	for range n {
		c := make([]int64, rows)
		columns, args = append(columns, c), append(args, c)
	}
	return columns, args
}

// unnested returns the placeholders of n columns of numbers and of others.
func unnested(n int, others ...string) string {
	columns := make([]string, 0, n+len(others))
	for _, t := range append(slices.Repeat([]string{"bigint"}, n), others...) {
		columns = append(columns, fmt.Sprintf("$%d::%s[]", len(columns)+1, t))
	}
	return strings.Join(columns, ", ")
}

func (b *postgresDB) size() int64 { return 0 }
