package sqldb_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Main(m)) }

// base is an instant without a monotonic reading.
var base = time.Unix(0, time.Now().Add(-24*time.Hour).UnixNano())

// newDB returns a database that is not open.
func newDB(tb testing.TB, url string) *sqldb.DB {
	tb.Helper()
	return testsqldb.New(tb, sqldb.Config{URL: url})
}

func open(tb testing.TB, url string) *sqldb.DB {
	tb.Helper()
	return testsqldb.Open(tb, sqldb.Config{URL: url})
}

// write writes something behind the fence.
func write(tb testing.TB, db *sqldb.DB) error {
	tb.Helper()
	return db.Write(tb.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO names (id, name) SELECT COALESCE(MAX(id), 0) + 1, CONCAT('n', COALESCE(MAX(id), 0) + 1) FROM names")
		return err
	})
}
