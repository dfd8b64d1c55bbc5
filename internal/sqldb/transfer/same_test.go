package transfer_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
)

// idOf returns the identity of the fleet in a database that is closed.
func idOf(tb testing.TB, db *sqldb.DB) (id string) {
	tb.Helper()
	err := db.Snapshot(tb.Context(), func(ctx context.Context, s *sqldb.Snapshot) error {
		return s.Scan(ctx, "SELECT store_id FROM meta", &id)
	})
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// same compares the fleets in two backups row by row, but for what a restore changes.
func same(tb testing.TB, a, b string) {
	tb.Helper()
	was, is := contents(tb, a), contents(tb, b)
	for table, rows := range was {
		if !maps.EqualFunc(rows, is[table], func(x, y int) bool { return x == y }) {
			tb.Errorf("table %s has %d kinds of rows, want %d", table, len(is[table]), len(rows))
			for row := range rows {
				if is[table][row] != rows[row] {
					tb.Errorf("is missing: %.300s", row)
				}
			}
		}
	}
	for table, rows := range is {
		if len(was[table]) == 0 && len(rows) > 0 {
			tb.Errorf("table %s has %d rows, want none", table, len(rows))
		}
	}
}

// contents reads the tables of a backup: how often each row is there, as text.
func contents(tb testing.TB, path string) map[string]map[string]int {
	tb.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	all := map[string]map[string]int{}
	var tables []string
	err = sqldb.Each(tb.Context(), db, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		tables = append(tables, name)
		return err
	}, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('schema_version', 'backup_info', 'backup_tables') AND name NOT LIKE 'sqlite%'")
	if err != nil {
		tb.Fatal(err)
	}
	for _, table := range tables {
		all[table] = map[string]int{}
		query := "SELECT * FROM " + table
		if table == "meta" {
			query = "SELECT store_id, last_offset, oldest, checkpoint, checkpoint_at, steady FROM meta"
		}
		err := sqldb.Each(tb.Context(), db, func(rows *sql.Rows) error {
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			values, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			err = rows.Scan(into...)
			all[table][fmt.Sprintf("%T %#v", values, values)]++
			return err
		}, query)
		if err != nil {
			tb.Fatal(err)
		}
	}
	return all
}
