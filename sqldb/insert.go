package sqldb

import (
	"context"
	"slices"
	"strings"
)

// Table is a table with the columns of rows that are inserted many at a time: first those of whole
// numbers, then those of texts, then those of bytes.
type Table struct {
	Name  string
	Ints  []string
	Texts []string
	Blobs []string
	Key   string // a row with the same value in this column is overwritten; empty for an error instead
}

// Columns returns the names of all columns, separated by commas.
func (t *Table) Columns() string { return strings.Join(t.columns(), ", ") }

func (t *Table) columns() []string { return slices.Concat(t.Ints, t.Texts, t.Blobs) }

// begin returns the beginning of the statement, up to the values.
func (t *Table) begin() string { return "INSERT INTO " + t.Name + " (" + t.Columns() + ")" }

// end returns the end of the statement, after the values.
func (t *Table) end(b backend) string {
	if t.Key == "" {
		return ""
	}
	return b.upsert(t.Key, slices.DeleteFunc(t.columns(), func(c string) bool { return c == t.Key })...)
}

// Insert inserts n rows in the fastest way that the database has. row appends the values of the i-th
// row to args, each an int64, a string or a []byte that is not nil, in the order of the table's
// columns.
func (tx Tx) Insert(ctx context.Context, t *Table, n int, row func(args []any, i int) []any) error {
	if n == 0 {
		return nil
	}
	return tx.db.backend.insert(ctx, tx.Tx.Tx, t, n, row)
}

// marks returns n placeholders.
func marks(n int) string { return strings.Repeat("?, ", n-1) + "?" }
