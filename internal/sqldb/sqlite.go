package sqldb

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
	_ "modernc.org/sqlite" // the driver
)

// sqliteDB is a database in a file.
type sqliteDB struct {
	path string
}

func (b *sqliteDB) place() string { return b.path }

func (b *sqliteDB) dialect() goose.Dialect { return goose.DialectSQLite3 }

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

// prepareDir makes the directory of the file, but none above it.
func (b *sqliteDB) prepareDir() error {
	if err := os.Mkdir(filepath.Dir(b.path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// pools opens one connection that writes, as SQLite lets no more than one. None of them makes a file
// where there is none: only prepare does. A commit is on the disk when it returns. The log grows to
// some 32 MB before it is folded into the file, since writes hit the same pages again and again.
func (b *sqliteDB) pools() (write, read *sql.DB) {
	write = b.openPool("mode=rw&_txlock=immediate", "busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(8000)",
		"journal_size_limit(67108864)", "cache_size(-65536)")
	write.SetMaxOpenConns(1)
	read = b.readPool()
	read.SetMaxOpenConns(connections)
	read.SetMaxIdleConns(connections)
	return write, read
}

// dsn returns the driver's name of the file.
func (b *sqliteDB) dsn(option string, pragmas ...string) string {
	return "file:" + (&url.URL{Path: b.path}).EscapedPath() + "?" + url.Values{"_pragma": pragmas}.Encode() + "&" + option
}

func (b *sqliteDB) openPool(option string, pragmas ...string) *sql.DB {
	db, err := sql.Open("sqlite", b.dsn(option, pragmas...))
	if err != nil { // only for a driver that does not exist
		panic(err)
	}
	return db
}

func (b *sqliteDB) leasePool() *sql.DB { return nil }

func (b *sqliteDB) lockPath() string { return filepath.Join(filepath.Dir(b.path), "lock") }

func (b *sqliteDB) upsert(key string, columns ...string) string { return onConflict(key, columns) }

// onConflict is the upsert of SQLite and PostgreSQL.
func onConflict(key string, columns []string) string {
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = c + " = excluded." + c
	}
	return " ON CONFLICT (" + key + ") DO UPDATE SET " + strings.Join(sets, ", ")
}

// insert runs a prepared statement for each row, which here is as fast as any other way.
func (b *sqliteDB) insert(ctx context.Context, tx *sql.Tx, t *Table, n int, row func(args []any, i int) []any) error {
	return repeat(ctx, tx, b, t.begin()+" VALUES ("+marks(len(t.columns()))+")"+t.end(b), n, row)
}

func (b *sqliteDB) remove(ctx context.Context, tx *sql.Tx, t *Table, n int, key func(args []any, i int) []any) error {
	return repeat(ctx, tx, b, "DELETE FROM "+t.Name+" WHERE "+t.matching(), n, key)
}

func (b *sqliteDB) clock() string { return "CAST(unixepoch('subsec') * 1000000 AS INTEGER)" }

func (b *sqliteDB) largest(context.Context, Querier) (int64, error) { return gigabyte, nil }

func (b *sqliteDB) size() int64 {
	sum := int64(0)
	for _, end := range []string{"", "-wal"} {
		if info, err := os.Stat(b.path + end); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// lockedBy returns the error for a lock that another process holds.
func lockedBy(path, holder string) error {
	return fmt.Errorf("%w: the process with pid %s holds %s; stop it, or use another directory", ErrLocked, holder, path)
}
