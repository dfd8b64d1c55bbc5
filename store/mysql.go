package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/schema"
)

// mysqlDB is a MariaDB or MySQL server.
type mysqlDB struct {
	config *mysql.Config
}

func (b *mysqlDB) place() string {
	return fmt.Sprintf("MariaDB or MySQL at %s, database %s", b.config.Addr, b.config.DBName)
}

func (b *mysqlDB) dialect() (goose.Dialect, schema.Dialect) {
	return goose.DialectMySQL, sameDialect{mysqldialect.New()}
}

// sameDialect is for MariaDB and MySQL of all versions alike. By itself bun's asks for the version, waits for the answer, and prints an error.
type sameDialect struct{ *mysqldialect.Dialect }

// Init asks nothing.
func (sameDialect) Init(*sql.DB) {}

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
	cfg.Logger = &mysql.NopLogger{} // what it would log, errors say too
	cfg.Params = map[string]string{"time_zone": "'+00:00'", "sql_mode": "'STRICT_ALL_TABLES'"}
	connector, err := mysql.NewConnector(cfg)
	if err != nil { // mysqlOf has checked all that comes from outside
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

func (b *mysqlDB) lock(ctx context.Context) (lock, error) {
	db := b.connect()
	db.SetMaxOpenConns(1)
	// The names of locks are the server's, not the database's, and of at most 64 characters.
	name := "SUBSTRING(CONCAT('holter.', SHA1(DATABASE())), 1, 40)"
	return newSessionLock(ctx, db, lockQueries{
		take: "SELECT COALESCE(GET_LOCK(" + name + ", 0), 0)",
		holder: "SELECT CONCAT('connection ', id, ' from ', host) FROM information_schema.processlist WHERE id = IS_USED_LOCK(" +
			name + ")",
	})
}

func (b *mysqlDB) bindVar(int) string { return "?" }

func (b *mysqlDB) upsert(_ string, columns ...string) string {
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = c + " = VALUES(" + c + ")"
	}
	return " ON DUPLICATE KEY UPDATE " + strings.Join(sets, ", ")
}

func (b *mysqlDB) insertDevices(ctx context.Context, tx *sql.Tx, rows []stateRow) error {
	return manyRows(ctx, tx, "INSERT INTO devices (num, id) VALUES ", 2, "", rows, func(args []any, r *stateRow) []any {
		return append(args, int64(r.record.Num), r.record.ID)
	})
}

func (b *mysqlDB) putStates(ctx context.Context, tx *sql.Tx, rows []stateRow) error {
	end := b.upsert("num", "state", "reason", "source", "heard", "until_at", "since", "seq", "epoch", "flags", "head", "announced", "own", "changes")
	return manyRows(ctx, tx, "INSERT INTO device_states ("+stateColumns+") VALUES ", stateInts+3, end, rows, func(args []any, r *stateRow) []any {
		ints := r.ints()
		return append(appendInts(args, ints[:]), policyText(r.record.Announced), policyText(r.record.Own), packChanges(r.record.Changes))
	})
}

func (b *mysqlDB) insertEvents(ctx context.Context, tx *sql.Tx, rows []eventRow) error {
	return manyRows(ctx, tx, "INSERT INTO events ("+eventColumns+") VALUES ", eventInts+2, "", rows, func(args []any, r *eventRow) []any {
		ints := r.ints()
		return append(appendInts(args, ints[:]), r.event.Subject, r.event.Message)
	})
}

func (b *mysqlDB) insertJobs(ctx context.Context, tx *sql.Tx, rows []jobRow) error {
	return manyRows(ctx, tx, "INSERT INTO jobs ("+jobColumns+") VALUES ", 4, "", rows, func(args []any, r *jobRow) []any {
		ints := r.ints()
		return appendInts(args, ints[:])
	})
}

// rowsPerStatement keeps a statement well below max_allowed_packet, whose default is 16 MB, even with the longest messages.
const rowsPerStatement = 1024

// manyRows inserts rows with few statements. Each row has n values.
func manyRows[R any](ctx context.Context, tx *sql.Tx, begin string, n int, end string, rows []R, row func(args []any, r *R) []any) error {
	mark := "(" + marks(n) + "), "
	var args []any
	for chunk := range slices.Chunk(rows, rowsPerStatement) {
		args = args[:0]
		for i := range chunk {
			args = row(args, &chunk[i])
		}
		values := strings.Repeat(mark, len(chunk))
		if _, err := tx.ExecContext(ctx, begin+values[:len(values)-2]+end, args...); err != nil {
			return err
		}
	}
	return nil
}

func (b *mysqlDB) size() int64 { return 0 }
