// Package testsqldb opens databases for tests. Package testdb has servers with empty ones.
package testsqldb

import (
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
)

// New returns a database that is not open. It is closed when the test ends, which fails if that does.
func New(tb testing.TB, cfg sqldb.Config) *sqldb.DB {
	tb.Helper()
	db, err := sqldb.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return db
}

// Open is [New] for a database that is open.
func Open(tb testing.TB, cfg sqldb.Config) *sqldb.DB {
	tb.Helper()
	db := New(tb, cfg)
	if err := db.Open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return db
}
