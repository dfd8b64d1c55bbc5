package testdb

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// Database is a kind of database.
type Database struct {
	Name string
	// URL is that of a database for one test, with the tables of the program and as if nobody had opened it yet.
	URL func(tb testing.TB) string
	// Empty is URL for a test of what happens without tables.
	Empty func(tb testing.TB) string
}

// Databases returns the kinds that a test of this level is run with: SQLite, and in make check the servers, too.
func Databases() []Database {
	if !testenv.Checks() {
		return All()[:1]
	}
	return All()
}

// All returns all kinds, for a test that shows what works with servers at each level. The first is SQLite.
func All() []Database {
	return []Database{{"sqlite", SQLite, EmptySQLite}, {"postgres", Postgres, EmptyPostgres}, {"mariadb", MariaDB, EmptyMariaDB}}
}

// Durable returns all kinds, for a benchmark: their servers are its own, and wait for the disk as they
// do by default.
func Durable() []Database {
	postgres := func(tb testing.TB) string { tb.Helper(); return NewPostgres(tb, true).Database(tb) }
	mariadb := func(tb testing.TB) string { tb.Helper(); return NewMariaDB(tb, true).Database(tb) }
	return []Database{{"sqlite", SQLite, EmptySQLite}, {"postgres", postgres, postgres}, {"mariadb", mariadb, mariadb}}
}

// EmptySQLite returns the URL of a database in a file that does not exist yet, nor does its directory.
func EmptySQLite(tb testing.TB) string {
	tb.Helper()
	return "sqlite:" + filepath.Join(tb.TempDir(), "data", "holter.db")
}

// Copies returns a function that makes a copy of an SQLite database, and returns its URL. It is for
// tests that need many: to make the tables takes longer than to copy them. migrate makes them.
func Copies(tb testing.TB, migrate func(url string) error) func() (url string, err error) {
	tb.Helper()
	url := EmptySQLite(tb)
	if err := migrate(url); err != nil {
		tb.Fatal(err)
	}
	empty, err := os.ReadFile(url[len("sqlite:"):])
	if err != nil {
		tb.Fatal(err)
	}
	dir, n := tb.TempDir(), 0
	return func() (string, error) {
		n++
		file := filepath.Join(dir, strconv.Itoa(n), "holter.db")
		if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
			return "", err
		}
		return "sqlite:" + file, os.WriteFile(file, empty, 0o600)
	}
}
