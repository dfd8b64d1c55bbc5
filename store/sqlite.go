package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"
	_ "modernc.org/sqlite" // the driver
)

// sqliteDB is a database in a file.
type sqliteDB struct {
	path string
}

func (b *sqliteDB) place() string { return b.path }

func (b *sqliteDB) dialect() (goose.Dialect, schema.Dialect) {
	return goose.DialectSQLite3, sqlitedialect.New()
}

// prepare makes the file and its directory, readable for the owner only, if they are not there.
func (b *sqliteDB) prepare() error {
	if err := b.prepareDir(); err != nil {
		return err
	}
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (b *sqliteDB) prepareDir() error {
	if err := os.Mkdir(filepath.Dir(b.path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// pools: one connection writes, as SQLite lets no more than one. None makes a file where there is none: prepare does, and nobody else. A commit is on the disk when it returns. The log grows to some 32 MB
// before it is folded into the file, since that hits the same pages again and again.
func (b *sqliteDB) pools() (write, read *sql.DB) {
	write = b.openPool("mode=rw&_txlock=immediate", "busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(8000)",
		"journal_size_limit(67108864)", "cache_size(-65536)")
	write.SetMaxOpenConns(1)
	read = b.openPool("mode=ro", "busy_timeout(10000)", "query_only(true)", "cache_size(-16384)")
	read.SetMaxOpenConns(connections)
	read.SetMaxIdleConns(connections)
	return write, read
}

// dsn is what the driver takes.
func (b *sqliteDB) dsn(option string, pragmas ...string) string {
	return "file:" + (&url.URL{Path: b.path}).EscapedPath() + "?" + url.Values{"_pragma": pragmas}.Encode() + "&" + option
}

func (b *sqliteDB) openPool(option string, pragmas ...string) *sql.DB {
	db, err := sql.Open("sqlite", b.dsn(option, pragmas...))
	if err != nil { // only for a driver that is not there
		panic(err)
	}
	return db
}

func (b *sqliteDB) lock(ctx context.Context) (lock, error) {
	return lockFile(ctx, filepath.Join(filepath.Dir(b.path), "lock"))
}

func (b *sqliteDB) bindVar(int) string { return "?" }

func (b *sqliteDB) upsert(key string, columns ...string) string { return onConflict(key, columns) }

// onConflict is the upsert of SQLite and PostgreSQL.
func onConflict(key string, columns []string) string {
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = c + " = excluded." + c
	}
	return " ON CONFLICT (" + key + ") DO UPDATE SET " + strings.Join(sets, ", ")
}

func (b *sqliteDB) insertDevices(ctx context.Context, tx *sql.Tx, rows []stateRow) error {
	return eachRow(ctx, tx, "INSERT INTO devices (num, id) VALUES (?, ?)", len(rows), func(args []any, i int) []any {
		return append(args, int64(rows[i].record.Num), rows[i].record.ID)
	})
}

const sqliteUpdateState = "UPDATE device_states SET state = ?2, reason = ?3, source = ?4, heard = ?5, until_at = ?6, since = ?7, seq = ?8, " +
	"epoch = ?9, flags = ?10, head = ?11, announced = ?12, own = ?13, changes = ?14 WHERE num = ?1"

func (b *sqliteDB) putStates(ctx context.Context, tx *sql.Tx, rows []stateRow) error {
	var known, fresh []stateRow
	for _, r := range rows {
		if r.known {
			known = append(known, r)
		} else {
			fresh = append(fresh, r)
		}
	}
	args := func(rows []stateRow) func([]any, int) []any {
		return func(args []any, i int) []any {
			ints := rows[i].ints()
			return append(appendInts(args, ints[:]),
				policyText(rows[i].record.Announced), policyText(rows[i].record.Own), packChanges(rows[i].record.Changes))
		}
	}
	if err := eachRow(ctx, tx, sqliteUpdateState, len(known), args(known)); err != nil {
		return err
	}
	return eachRow(ctx, tx, "INSERT INTO device_states ("+stateColumns+") VALUES ("+marks(stateInts+3)+")", len(fresh), args(fresh))
}

func (b *sqliteDB) insertEvents(ctx context.Context, tx *sql.Tx, rows []eventRow) error {
	return eachRow(ctx, tx, "INSERT INTO events ("+eventColumns+") VALUES ("+marks(eventInts+2)+")", len(rows), func(args []any, i int) []any {
		ints := rows[i].ints()
		return append(appendInts(args, ints[:]), rows[i].event.Subject, rows[i].event.Message)
	})
}

func (b *sqliteDB) insertJobs(ctx context.Context, tx *sql.Tx, rows []jobRow) error {
	return eachRow(ctx, tx, "INSERT INTO jobs ("+jobColumns+") VALUES (?, ?, ?, ?)", len(rows), func(args []any, i int) []any {
		ints := rows[i].ints()
		return appendInts(args, ints[:])
	})
}

// eachRow runs a statement for each of n rows, which here is as fast as any other way.
func eachRow(ctx context.Context, tx *sql.Tx, query string, n int, row func(args []any, i int) []any) error {
	if n == 0 {
		return nil
	}
	stmt, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	var args []any
	for i := range n {
		args = row(args[:0], i)
		if _, err = stmt.ExecContext(ctx, args...); err != nil {
			break
		}
	}
	return errors.Join(err, stmt.Close())
}

// marks returns n placeholders.
func marks(n int) string { return strings.Repeat("?, ", n-1) + "?" }

func (b *sqliteDB) size() int64 {
	sum := int64(0)
	for _, end := range []string{"", "-wal"} {
		if info, err := os.Stat(b.path + end); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// lockedBy says who holds a directory.
func lockedBy(path, holder string) error {
	if holder == "" {
		holder = "unknown"
	}
	return fmt.Errorf("%w: the process with pid %s holds %s; stop it, or use another directory", ErrLocked, holder, path)
}
