package sqldb_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
)

// Memory is released beside readers and writers, which do not notice.
func TestReleaseMemory(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run(kind.Name, func(t *testing.T) {
			db := newDB(t, kind.URL(t))
			if err := db.ReleaseMemory(t.Context()); !errors.Is(err, sqldb.ErrNotOpen) {
				t.Errorf("before Open: %v", err)
			}
			if err := db.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := db.Read(t.Context(), "test", func(ctx context.Context, q sqldb.Reader) error {
				rows, err := q.QueryContext(ctx, "SELECT id FROM meta")
				if err != nil {
					return err
				}
				defer func() { _ = rows.Close() }()
				if err := db.ReleaseMemory(ctx); err != nil {
					t.Error(err)
				}
				if !rows.Next() {
					t.Error("the reader has lost its rows")
				}
				return rows.Err()
			})
			if err := errors.Join(err, write(t, db), db.ReleaseMemory(t.Context()), write(t, db)); err != nil {
				t.Error(err)
			}
		})
	}
}
