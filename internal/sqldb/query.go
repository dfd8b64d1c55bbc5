package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier is a [Reader] or a [Tx].
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Reader runs queries.
//
// The text of a statement has a ? for each argument, and none for anything else. A []int64 or a []string is the
// list of an IN (?), which may be empty, or of a NOT IN (?), which may not. Numbers, texts, bytes, booleans, times
// and pointers to them are written as columns have them: a time as [Nanos] returns it, a boolean as 1 or 0, and a
// number that no column can have as the greatest.
type Reader struct {
	backend backend
	on      Querier
}

// QueryContext is that of [sql.DB].
func (r Reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = bind(r.backend, query, args)
	return r.on.QueryContext(ctx, query, args...)
}

// QueryRowContext is that of [sql.DB].
func (r Reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	query, args = bind(r.backend, query, args)
	return r.on.QueryRowContext(ctx, query, args...)
}

// Postgres reports whether the database is PostgreSQL.
func (r Reader) Postgres() bool {
	_, ok := r.backend.(*postgresDB)
	return ok
}

// MySQL reports whether the database is MariaDB or MySQL.
func (r Reader) MySQL() bool {
	_, ok := r.backend.(*mysqlDB)
	return ok
}

// bind returns a statement and its arguments as the driver of a database takes them. PostgreSQL is told not to
// prepare it, but to plan it each time for its arguments and for the tables as they are: a plan that was kept
// since a table was empty would read all of it once it is full.
func bind(b backend, query string, args []any) (string, []any) {
	_, numbered := b.(*postgresDB)
	bound := make([]any, 0, len(args)+1)
	if numbered {
		bound = append(bound, pgx.QueryExecModeExec)
	}
	var text strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		if !found {
			text.WriteString(before)
			return text.String(), bound
		}
		mark := "?"
		if n <= len(args) {
			switch arg := args[n-1].(type) {
			case []int64, []string:
				if numbered {
					before, bound = anyOf(before), append(bound, arg)
				} else {
					mark, bound = listed(arg, bound)
				}
			default:
				bound = append(bound, plain(arg))
			}
		}
		if numbered {
			mark = "$" + strconv.Itoa(n)
		}
		text.WriteString(before)
		text.WriteString(mark)
		query = after
	}
}

// anyOf returns what comes before the ? of an IN (?) for PostgreSQL, which takes an array: the text of the statement is
// the same for each length.
func anyOf(before string) string {
	if head, ok := strings.CutSuffix(before, "NOT IN ("); ok {
		return head + "<> ALL ("
	}
	return strings.TrimSuffix(before, "IN (") + "= ANY ("
}

// listed returns what takes the place of the ? of an IN (?), and the arguments with those of the list. Numbers stand in
// the text: to bind thousands of them costs more than to read them.
func listed(list any, bound []any) (mark string, _ []any) {
	var text []byte
	switch values := list.(type) {
	case []int64:
		for _, v := range values {
			text = append(strconv.AppendInt(text, v, 10), ',')
		}
	case []string:
		for _, v := range values {
			text, bound = append(text, "?,"...), append(bound, v)
		}
	}
	if len(text) == 0 {
		return "NULL", bound
	}
	return string(text[:len(text)-1]), bound
}

// plain returns an argument as every driver takes it.
func plain(arg any) any {
	switch v := arg.(type) {
	case int64, string, []byte:
		return v
	case uint64:
		return int64(min(v, math.MaxInt64))
	}
	v, err := driver.DefaultParameterConverter.ConvertValue(arg)
	if err != nil { // so says the driver
		return arg
	}
	switch v := v.(type) {
	case bool:
		return int64(Bool(v))
	case time.Time:
		return Nanos(v)
	}
	return v
}

// Ints returns numbers as the list of an IN (?).
func Ints[T ~int | ~uint32 | ~uint64](numbers []T) []int64 {
	values := make([]int64, len(numbers))
	for i, n := range numbers {
		if values[i] = int64(n); n > 0 && values[i] < 0 {
			values[i] = math.MaxInt64
		}
	}
	return values
}

// exec runs a statement in a transaction or on a connection, and returns how many rows it changed.
func exec(ctx context.Context, b backend, on execer, query string, args ...any) (changed int64, err error) {
	query, args = bind(b, query, args)
	res, err := on.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Each runs a query and calls scan for each row.
func Each(ctx context.Context, q Querier, scan func(rows *sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		err = scan(rows)
	}
	return cmp.Or(err, rows.Err(), rows.Close())
}

// All returns the rows of a query. fields returns where the columns of a row are scanned to.
func All[T any](ctx context.Context, q Querier, fields func(row *T) []any, query string, args ...any) (all []T, err error) {
	err = Each(ctx, q, func(rows *sql.Rows) error {
		var row T
		err := rows.Scan(fields(&row)...)
		all = append(all, row)
		return err
	}, query, args...)
	return all, err
}

// Pairs returns the rows of a query for two columns: the second by the first.
func Pairs[K comparable, V any](ctx context.Context, q Querier, query string, args ...any) (map[K]V, error) {
	pairs := make(map[K]V)
	return pairs, Each(ctx, q, func(rows *sql.Rows) error {
		var key K
		var value V
		err := rows.Scan(&key, &value)
		pairs[key] = value
		return err
	}, query, args...)
}

// ReadAll is All in a [DB.Read].
func ReadAll[T any](ctx context.Context, db *DB, op string, fields func(row *T) []any, query string, args ...any) (all []T, err error) {
	err = db.Read(ctx, op, func(ctx context.Context, q Reader) error {
		all, err = All(ctx, q, fields, query, args...)
		return err
	})
	return all, err
}

// Values returns the values of a query for one column.
func Values[T any](ctx context.Context, q Querier, query string, args ...any) ([]T, error) {
	return All(ctx, q, func(value *T) []any { return []any{value} }, query, args...)
}
