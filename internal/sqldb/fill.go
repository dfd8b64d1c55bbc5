package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Put inserts rows into a table, in one transaction. columns are those of the rows, which the table must
// have. Errors: ErrFull, and those of the database.
func (t *Target) Put(ctx context.Context, table *TableInfo, rows []Row) error {
	own, err := t.like(ctx, table)
	if err == nil {
		err = t.insert(ctx, own, rows)
	}
	if err != nil {
		return t.db.wrap("fill table "+table.Name, err)
	}
	return nil
}

// like returns a table of the target with the columns of one elsewhere, in their order. A file gets a table
// that only servers have.
func (t *Target) like(ctx context.Context, table *TableInfo) (*TableInfo, error) {
	at := slices.IndexFunc(t.tables, func(own TableInfo) bool { return own.Name == table.Name })
	if _, ok := t.backend.(*sqliteDB); ok && at < 0 {
		if err := t.addTable(ctx, table); err != nil {
			return nil, err
		}
		at = len(t.tables) - 1
	}
	if at < 0 {
		return nil, fmt.Errorf("%s has no table %s", t.db.Place(), table.Name)
	}
	own := &TableInfo{Name: table.Name}
	for _, c := range table.Columns {
		i := slices.IndexFunc(t.tables[at].Columns, func(o Column) bool { return o.Name == c.Name })
		if i < 0 {
			return nil, fmt.Errorf("table %s has no column %s", table.Name, c.Name)
		}
		column := t.tables[at].Columns[i]
		if column.Kind != KindInstant {
			column.Kind = c.Kind
		}
		own.Columns = append(own.Columns, column)
	}
	return own, nil
}

// addTable makes a table in a file.
func (t *Target) addTable(ctx context.Context, table *TableInfo) error {
	types := [...]string{KindInt: "INTEGER", KindFloat: "REAL", KindText: "TEXT", KindBytes: "BLOB", KindInstant: "INTEGER"}
	columns := make([]string, len(table.Columns))
	for i, c := range table.Columns {
		columns[i] = c.Name + " " + types[c.Kind]
	}
	columns[0] += " PRIMARY KEY"
	if _, err := t.pool.ExecContext(ctx, "CREATE TABLE "+table.Name+" ("+strings.Join(columns, ", ")+")"); err != nil {
		return err
	}
	t.tables = append(t.tables, *table)
	return nil
}

func (t *Target) insert(ctx context.Context, table *TableInfo, rows []Row) error {
	if file, ok := t.backend.(*sqliteDB); ok {
		if err := file.room(); err != nil {
			return err
		}
		return t.write(ctx, func(tx *sql.Tx) error {
			query := "INSERT INTO " + table.Name + " (" + strings.Join(table.names(), ", ") + ") VALUES (" + marks(len(table.Columns)) + ")"
			return repeat(ctx, tx, file, query, len(rows), func(args []any, i int) []any { return append(args, rows[i]...) })
		})
	}
	values := make([][]any, len(rows))
	for n, row := range rows {
		values[n] = make([]any, len(row))
		for i := range row {
			var err error
			if values[n][i], err = fitting(&table.Columns[i], row[i]); err != nil {
				return fmt.Errorf("%s: %w", table.Describe(row), err)
			}
		}
	}
	if _, ok := t.backend.(*postgresDB); ok {
		return t.copyIn(ctx, table, values)
	}
	return t.write(ctx, func(tx *sql.Tx) error { return insertBySize(ctx, tx, table, values) })
}

// copyIn inserts rows in PostgreSQL's fastest way. It takes the numbers of rows as they are, also where
// others may not choose them.
func (t *Target) copyIn(ctx context.Context, table *TableInfo, values [][]any) error {
	if err := t.lock.check(ctx); err != nil {
		return err
	}
	conn, err := t.pool.Conn(ctx)
	if err != nil {
		return err
	}
	err = conn.Raw(func(raw any) error {
		_, err := raw.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{table.Name}, table.names(), pgx.CopyFromRows(values))
		return err
	})
	if err != nil {
		discard(conn)
	}
	_ = conn.Close() // gives it back
	return err
}

// statementBytes is how many bytes of values a statement has at most, unless one row has more.
const statementBytes = 1 << 20

// insertBySize sends many rows with each statement.
func insertBySize(ctx context.Context, tx *sql.Tx, table *TableInfo, values [][]any) error {
	begin := "INSERT INTO " + table.Name + " (" + strings.Join(table.names(), ", ") + ") VALUES "
	one := "(" + marks(len(table.Columns)) + ")"
	for len(values) > 0 {
		var args []any
		n, size := 0, 0
		for n < len(values) && n < rowsPerStatement && (n == 0 || size < statementBytes) {
			for i, v := range values[n] {
				if text, ok := v.(string); ok && !table.Columns[i].asString {
					v = []byte(text)
				}
				args = append(args, v)
				size += sizeOf(v)
			}
			n++
		}
		if _, err := tx.ExecContext(ctx, begin+list(one, n), args...); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// Size returns about how many bytes a row has.
func (r Row) Size() (sum int) {
	for _, v := range r {
		sum += sizeOf(v)
	}
	return sum
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 8
}

// fillPool opens one connection to a file that is being filled. Nothing waits for the disk until the file
// is put in its place; but with the journal DELETE, a process that is killed leaves it whole. With OFF it is
// of no use then.
func (b *sqliteDB) fillPool(journal string) *sql.DB {
	db := b.openPool("mode=rw&_txlock=immediate", "journal_mode("+journal+")", "synchronous(OFF)", "cache_size(-65536)")
	db.SetMaxOpenConns(1)
	return db
}

// ErrFull is wrapped by errors about a disk on which too little would be left.
var ErrFull = errors.New("sqldb: the disk is nearly full")

// keepFree is how many bytes of a disk are left free when a copy of a database is written: others write
// there, too.
const keepFree = 128 << 20

// room returns an error if the disk of the file has too little free space. Errors: ErrFull.
func (b *sqliteDB) room() error {
	dir := filepath.Dir(b.path)
	free, err := freeBytes(dir)
	if err == nil && free < keepFree {
		err = fmt.Errorf("%w: %s has %d MB free, and %d MB are left for those who work there; free some, or choose another disk",
			ErrFull, dir, free>>20, keepFree>>20)
	}
	return err
}
