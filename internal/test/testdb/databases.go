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
	URL  func(tb testing.TB) string // of an empty one, for one test
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
	return []Database{{"sqlite", SQLite}, {"postgres", Postgres}, {"mariadb", MariaDB}}
}

// Durable returns all kinds, for a benchmark: their servers are its own, and wait for the disk as they
// do by default.
func Durable() []Database {
	return []Database{
		{"sqlite", SQLite},
		{"postgres", func(tb testing.TB) string { tb.Helper(); return NewPostgres(tb, true).Database(tb) }},
		{"mariadb", func(tb testing.TB) string { tb.Helper(); return NewMariaDB(tb, true).Database(tb) }},
	}
}

// SQLite returns the URL of a database in a file, in a directory that does not exist yet.
func SQLite(tb testing.TB) string {
	tb.Helper()
	return "sqlite:" + filepath.Join(tb.TempDir(), "data", "holter.db")
}

// Copies returns a function that makes a copy of an SQLite database, and returns its URL. It is for
// tests that need many: to make the tables takes longer than to copy them. migrate makes them.
func Copies(tb testing.TB, migrate func(url string) error) func() (url string, err error) {
	tb.Helper()
	url := SQLite(tb)
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
