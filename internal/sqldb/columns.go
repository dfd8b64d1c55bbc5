package sqldb

import (
	"database/sql"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/uptrace/bun/schema"
)

// columns is a dialect for columns that all databases have: a time is kept as [Nanos] returns it, a
// boolean as 1 or 0, and JSON as the text that it is.
type columns struct {
	schema.Dialect

	tables *schema.Tables
}

func newColumns(of schema.Dialect) *columns {
	c := &columns{Dialect: of}
	c.tables = schema.NewTables(c)
	return c
}

// Init does not ask for the version of the server. By itself, bun's dialect for MySQL does, waits for
// the answer, and prints an error.
func (c *columns) Init(*sql.DB) {}

func (c *columns) Tables() *schema.Tables { return c.tables }

// OnTable sets how fields are read from columns.
func (c *columns) OnTable(table *schema.Table) {
	c.Dialect.OnTable(table)
	for _, f := range table.Fields {
		if f.IndirectType == reflect.TypeFor[time.Time]() {
			f.Scan = scanTime
		}
	}
}

func scanTime(dest reflect.Value, src any) error {
	ns, ok := src.(int64)
	if !ok {
		return fmt.Errorf("%T is no time", src)
	}
	dest.Set(reflect.ValueOf(Time(ns)))
	return nil
}

func (c *columns) AppendTime(b []byte, t time.Time) []byte {
	return strconv.AppendInt(b, Nanos(t), 10)
}

func (c *columns) AppendBool(b []byte, v bool) []byte {
	return strconv.AppendInt(b, int64(Bool(v)), 10)
}

func (c *columns) AppendJSON(b, text []byte) []byte { return c.AppendString(b, string(text)) }
