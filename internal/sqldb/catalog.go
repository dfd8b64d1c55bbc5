package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ColumnKind is what a column has, in every database. NULL is nil everywhere.
type ColumnKind int

// The kinds of columns, and the type of their values in a [Row].
const (
	KindInt     ColumnKind = iota // whole numbers of 64 bits: int64
	KindFloat                     // float64
	KindText                      // string
	KindBytes                     // []byte
	KindInstant                   // an instant of the server, kept as int64: Unix time in µs
)

// Column is a column of a table.
type Column struct {
	Name string
	Kind ColumnKind

	key      int  // place in the primary key, from 1; 0 if it is no part of it
	asString bool // the driver of MariaDB wants texts for it, not bytes
}

// TableInfo is a table with all of its columns, in their order.
type TableInfo struct {
	Name    string
	Columns []Column
}

// Row is a row of a table, with its values in the order of the columns. A damaged row of a file may have
// values of other types than the columns say.
type Row []any

// names returns the names of the columns.
func (t *TableInfo) names() []string {
	names := make([]string, len(t.Columns))
	for i := range t.Columns {
		names[i] = t.Columns[i].Name
	}
	return names
}

// order returns the column by which rows are read in the order in which they lie; "" if there is none.
func (t *TableInfo) order() string {
	key := ""
	for _, c := range t.Columns {
		switch {
		case c.key == 0:
		case key != "" || c.Kind != KindInt:
			return ""
		default:
			key = c.Name
		}
	}
	return key
}

// Describe names a row for people by its first column.
func (t *TableInfo) Describe(row Row) string {
	return fmt.Sprintf("table %s, the row with %s = %.100v", t.Name, t.Columns[0].Name, row[0])
}

// catalogue returns all tables of a database, as the database itself lists them.
func catalogue(ctx context.Context, b backend, q Querier) (tables []TableInfo, err error) {
	err = Each(ctx, q, func(rows *sql.Rows) error {
		var table, kind string
		var c Column
		if err := rows.Scan(&table, &c.Name, &kind, &c.key); err != nil {
			return err
		}
		kind = strings.ToLower(kind)
		c.Kind = kindOf(kind)
		c.asString = strings.HasSuffix(kind, "text") || strings.Contains(kind, "char")
		if len(tables) == 0 || tables[len(tables)-1].Name != table {
			tables = append(tables, TableInfo{Name: table})
		}
		t := &tables[len(tables)-1]
		t.Columns = append(t.Columns, c)
		return nil
	}, b.catalogue())
	return tables, err
}

// kindOf returns the kind of a column by its type in the database.
func kindOf(declared string) ColumnKind {
	switch {
	case strings.Contains(declared, "timestamp"):
		return KindInstant
	case strings.Contains(declared, "int"):
		return KindInt
	case strings.Contains(declared, "real"), strings.Contains(declared, "double"):
		return KindFloat
	case strings.Contains(declared, "char"), strings.HasSuffix(declared, "text"):
		return KindText
	}
	return KindBytes
}

func (b *sqliteDB) catalogue() string {
	return "SELECT m.name, p.name, p.type, p.pk FROM sqlite_master m JOIN pragma_table_info(m.name) p" +
		" WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY m.name, p.cid"
}

func (b *postgresDB) catalogue() string {
	return "SELECT c.table_name, c.column_name, c.data_type, 0 FROM information_schema.columns c JOIN information_schema.tables t" +
		" ON t.table_schema = c.table_schema AND t.table_name = c.table_name" +
		" WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' ORDER BY c.table_name, c.ordinal_position"
}

func (b *mysqlDB) catalogue() string {
	return "SELECT c.table_name, c.column_name, c.data_type, 0 FROM information_schema.columns c JOIN information_schema.tables t" +
		" ON t.table_schema = c.table_schema AND t.table_name = c.table_name" +
		" WHERE c.table_schema = DATABASE() AND t.table_type = 'BASE TABLE' ORDER BY c.table_name, c.ordinal_position"
}

// canonical returns a value as a [Row] has it, from what a driver returns for a column of a kind.
func canonical(kind ColumnKind, v any) (any, error) {
	switch v := v.(type) {
	case time.Time:
		return v.UnixMicro(), nil
	case float32:
		return float64(v), nil
	case uint64:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case []byte:
		if v == nil { // the driver of SQLite returns it for an empty one, and takes it for NULL
			v = []byte{}
		}
		switch kind {
		case KindText:
			return string(v), nil
		case KindInt:
			return strconv.ParseInt(string(v), 10, 64)
		case KindFloat:
			return strconv.ParseFloat(string(v), 64)
		case KindBytes, KindInstant:
		}
		return v, nil
	}
	return v, nil
}

// errValue is wrapped by errors about a value that its column cannot have.
var errValue = errors.New("sqldb: a value that cannot be")

// fitting returns a value as the driver of a server wants it for a column. Errors: the value is of another
// type, as in a damaged file.
func fitting(c *Column, v any) (any, error) {
	ok := v == nil
	switch c.Kind {
	case KindInt:
		_, is := v.(int64)
		ok = ok || is
	case KindFloat:
		_, is := v.(float64)
		ok = ok || is
	case KindInstant:
		micros, is := v.(int64)
		if is {
			return time.UnixMicro(micros).UTC(), nil
		}
	case KindText:
		text, is := v.(string)
		if is && strings.ContainsRune(text, 0) {
			return nil, fmt.Errorf("%w: column %s has a text with a NUL byte, which no server takes", errValue, c.Name)
		}
		ok = ok || is
	case KindBytes:
		if text, is := v.(string); is {
			return []byte(text), nil
		}
		_, is := v.([]byte)
		ok = ok || is
	}
	if !ok {
		return nil, fmt.Errorf("%w: column %s has a %T; it is damaged", errValue, c.Name, v)
	}
	return v, nil
}
