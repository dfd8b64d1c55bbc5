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
	Key   string // a row with the same values in these columns, separated by ", ", is overwritten; empty for an error instead
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
	key := strings.Split(t.Key, ", ")
	return b.upsert(t.Key, slices.DeleteFunc(t.columns(), func(c string) bool { return slices.Contains(key, c) })...)
}

// Insert inserts n rows in the fastest way that the database has. row appends the values of the i-th
// row to args, each an int64, a string or a []byte that is not nil, in the order of the table's
// columns.
func (tx Tx) Insert(ctx context.Context, t *Table, n int, row func(args []any, i int) []any) error {
	if n == 0 {
		return nil
	}
	return tx.backend.insert(ctx, tx.tx, t, n, row)
}

// Delete deletes the rows that have one of n combinations of values in the columns of t, in the
// fastest way that the database has; an index should begin with these columns. key appends the
// values of the i-th combination to args, as row of [Tx.Insert] does.
func (tx Tx) Delete(ctx context.Context, t *Table, n int, key func(args []any, i int) []any) error {
	if n == 0 {
		return nil
	}
	return tx.backend.remove(ctx, tx.tx, t, n, key)
}

// LargestValue returns how many bytes a value may have that [Tx.Insert] writes in a row of its own,
// beside columns of a few KB: 1 GB or, in MariaDB and MySQL, a little less than half of the server's
// max_allowed_packet. Errors as those of [DB.Read].
func (db *DB) LargestValue(ctx context.Context) (n int64, err error) {
	err = db.Read(ctx, "ask for the size of a value", func(ctx context.Context, q Reader) error {
		n, err = db.backend.largest(ctx, q)
		return err
	})
	return n, err
}

// matching returns the condition that each column is equal to a placeholder.
func (t *Table) matching() string { return strings.Join(t.columns(), " = ? AND ") + " = ?" }

// InsertInto returns an INSERT of a row with some columns, which commas separate, and a ? for each. The end of
// [Tx.Upsert] may follow.
func InsertInto(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + marks(strings.Count(columns, ",")+1) + ")"
}

// marks returns n placeholders.
func marks(n int) string { return list("?", n) }

// list returns n times the same, with commas between.
func list(s string, n int) string { return strings.Repeat(s+", ", n-1) + s }
