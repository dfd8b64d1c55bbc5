package transfer_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

// No table and no column that a database has is forgotten.
func TestCatalogue(t *testing.T) {
	queries := map[string]string{
		"sqlite":   "SELECT m.name || '.' || p.name FROM sqlite_master m JOIN pragma_table_xinfo(m.name) p WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'",
		"postgres": "SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped",
		"mariadb":  "SELECT CONCAT(c.table_name, '.', c.column_name) FROM information_schema.columns c JOIN information_schema.tables t ON t.table_name = c.table_name AND t.table_schema = c.table_schema WHERE c.table_schema = DATABASE() AND t.table_type <> 'VIEW'",
	}
	for _, kind := range testdb.Databases() {
		t.Run(kind.Name, func(t *testing.T) {
			db := testsqldb.Open(t, sqldb.Config{URL: kind.URL(t), Dir: t.TempDir()})
			var there, copied []string
			err := db.Read(t.Context(), "test", func(ctx context.Context, q sqldb.Reader) error {
				return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
					name := ""
					err := rows.Scan(&name)
					if table, _, _ := strings.Cut(name, "."); !slices.Contains([]string{"schema_version", "judge", "moved"}, table) {
						there = append(there, name)
					}
					return err
				}, queries[kind.Name])
			})
			if err != nil {
				t.Fatal(err)
			}
			err = db.Snapshot(t.Context(), func(_ context.Context, s *sqldb.Snapshot) error {
				for _, table := range s.Tables {
					for _, c := range table.Columns {
						copied = append(copied, table.Name+"."+c.Name)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(there)
			slices.Sort(copied)
			if !slices.Equal(there, copied) || len(there) < 150 {
				t.Errorf("the database has %v, and these are copied: %v", there, copied)
			}
		})
	}
}
