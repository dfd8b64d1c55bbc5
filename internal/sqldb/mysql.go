package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
)

// mysqlDB is a MariaDB or MySQL server.
type mysqlDB struct {
	config *mysql.Config
}

func (b *mysqlDB) place() string {
	return fmt.Sprintf("MariaDB or MySQL at %s, database %s", b.config.Addr, b.config.DBName)
}

func (b *mysqlDB) dialect() goose.Dialect { return goose.DialectMySQL }

func (b *mysqlDB) prepare() error { return nil }

func (b *mysqlDB) connect() *sql.DB {
	cfg := b.config.Clone()
	cfg.InterpolateParams = true // a batch goes over in one round trip
	cfg.ClientFoundRows = true   // a row that was changed to what it was counts
	cfg.ParseTime = true
	cfg.Loc = time.UTC
	cfg.Timeout = 10 * time.Second
	cfg.ReadTimeout, cfg.WriteTimeout = patience, patience
	cfg.ConnectionAttributes = "program_name:holter"
	cfg.Logger = &mysql.NopLogger{} // the errors say the same
	cfg.Params = map[string]string{
		"time_zone": "'+00:00'",
		"sql_mode":  fmt.Sprintf("'STRICT_ALL_TABLES' /*M!100300 , idle_transaction_timeout = %d */", int(idleLimit.Seconds())), // MySQL has no such limit
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil { // mysqlOf has checked all of the user's options
		panic(err)
	}
	return sql.OpenDB(connector)
}

func (b *mysqlDB) pools() (write, read *sql.DB) {
	write, read = b.connect(), b.connect()
	bound(write)
	bound(read)
	return write, read
}

func (b *mysqlDB) leasePool() *sql.DB {
	db := b.connect()
	db.SetMaxOpenConns(1)
	return db
}

func (b *mysqlDB) upsert(_ string, columns ...string) string {
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = c + " = VALUES(" + c + ")"
	}
	return " ON DUPLICATE KEY UPDATE " + strings.Join(sets, ", ")
}

// rowsPerStatement keeps a statement well below max_allowed_packet, whose default is 16 MB, even
// with the longest messages.
const rowsPerStatement = 1024

// insert sends many rows with each statement.
func (b *mysqlDB) insert(ctx context.Context, tx *sql.Tx, t *Table, n int, row func(args []any, i int) []any) error {
	return inParts(ctx, tx, n, row, func(n int) string {
		return t.begin() + " VALUES " + list("("+marks(len(t.columns()))+")", n) + t.end(b)
	})
}

// remove sends many keys with each statement.
func (b *mysqlDB) remove(ctx context.Context, tx *sql.Tx, t *Table, n int, key func(args []any, i int) []any) error {
	return inParts(ctx, tx, n, key, func(n int) string {
		return "DELETE FROM " + t.Name + " WHERE (" + t.Columns() + ") IN (" + list("("+marks(len(t.columns()))+")", n) + ")"
	})
}

// inParts runs a statement for n rows, as many times as it takes. statement returns that for so many rows.
func inParts(ctx context.Context, tx *sql.Tx, n int, row func(args []any, i int) []any, statement func(n int) string) error {
	var args []any
	for from := 0; from < n; from += rowsPerStatement {
		to := min(from+rowsPerStatement, n)
		args = args[:0]
		for i := from; i < to; i++ {
			args = row(args, i)
		}
		if _, err := tx.ExecContext(ctx, statement(to-from), args...); err != nil {
			return err
		}
	}
	return nil
}

// clock relies on the time zone of connect. UTC_TIMESTAMP is the time at which the statement began.
func (b *mysqlDB) clock() string {
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', SYSDATE(6))"
}

func (b *mysqlDB) size() int64 { return 0 }

// largest returns half of max_allowed_packet, less what else a statement has: InterpolateParams may
// have to escape each byte.
func (b *mysqlDB) largest(ctx context.Context, q Querier) (n int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&n)
	return n/2 - 8<<10, err
}
