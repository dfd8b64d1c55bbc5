package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Snapshot is a database as it was at one instant. Use it in one goroutine.
type Snapshot struct {
	// Version is that of the schema.
	Version int64
	// Tables are all tables of the fleet that are there, by name.
	Tables []TableInfo

	db   *DB
	conn *sql.Conn
}

// Snapshot lets do read the database as it is at one instant, while others go on to write. It needs
// neither Open nor the newest schema, changes nothing, and holds nobody up; but a file cannot reuse its log
// meanwhile, and a server not what was deleted. It has no time limit. Errors: ErrNewerSchema, ErrNoFleet,
// those of do, and those of the database.
func (db *DB) Snapshot(ctx context.Context, do func(ctx context.Context, s *Snapshot) error) error {
	var failed error
	err := db.snapshot(ctx, func(s *Snapshot) error {
		failed = do(ctx, s)
		return failed
	})
	if failed != nil {
		return failed
	}
	return db.wrap("read", err)
}

// ErrNoFleet is wrapped by errors of [DB.Snapshot] about a database without the tables of a fleet.
var ErrNoFleet = errors.New("sqldb: no fleet is kept there")

func (db *DB) snapshot(ctx context.Context, do func(s *Snapshot) error) (err error) {
	pool := db.backend.readPool()
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing was written over it
	for _, statement := range db.backend.snapshot() {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	s := &Snapshot{db: db, conn: conn}
	if err := s.look(ctx, db.Place()); err != nil {
		return err
	}
	err = do(s)
	_, ended := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	if err == nil {
		err = ended
	}
	return err
}

// look reads which tables there are, and their version.
func (s *Snapshot) look(ctx context.Context, place string) error {
	there, err := catalogue(ctx, s.db.backend, s.conn)
	if err != nil {
		return err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(there, func(t TableInfo) bool { return t.Name == name })
	}
	if !has(versionTable) || !has("meta") {
		return fmt.Errorf("%w: %s has no tables of holter", ErrNoFleet, place)
	}
	if err := s.Scan(ctx, "SELECT MAX(version_id) FROM "+versionTable, &s.Version); err != nil {
		return err
	}
	fleet, err := FleetTables(ctx, s.Version)
	if err != nil {
		return err
	}
	for _, name := range serverTables() {
		if at := slices.IndexFunc(there, func(t TableInfo) bool { return t.Name == name }); at >= 0 {
			fleet = append(fleet, there[at])
		}
	}
	for i := range fleet {
		if !has(fleet[i].Name) {
			return fmt.Errorf("%w: %s lacks the table %s", ErrNoFleet, place, fleet[i].Name)
		}
	}
	s.Tables = fleet
	return nil
}

// Table returns a table by name; nil if there is none.
func (s *Snapshot) Table(name string) *TableInfo {
	at := slices.IndexFunc(s.Tables, func(t TableInfo) bool { return t.Name == name })
	if at < 0 {
		return nil
	}
	return &s.Tables[at]
}

// Scan scans the first row of a query.
func (s *Snapshot) Scan(ctx context.Context, query string, dest ...any) error {
	return s.db.wrap("read", s.conn.QueryRowContext(ctx, query).Scan(dest...))
}

// Each calls scan for the rows of a table that meet a condition, all if it is empty, one after the other.
// The row belongs to scan until it returns.
func (s *Snapshot) Each(ctx context.Context, t *TableInfo, where string, scan func(row Row) error) error {
	query := "SELECT " + strings.Join(t.names(), ", ") + " FROM " + t.Name
	if where != "" {
		query += " WHERE " + where
	}
	if key := t.order(); key != "" {
		query += " ORDER BY " + key
	}
	row, into := make(Row, len(t.Columns)), make([]any, len(t.Columns))
	for i := range row {
		into[i] = &row[i]
	}
	err := Each(ctx, s.conn, func(rows *sql.Rows) (err error) {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i := range row {
			if row[i], err = canonical(t.Columns[i].Kind, row[i]); err != nil {
				return fmt.Errorf("%s: column %s: %w", t.Describe(row), t.Columns[i].Name, err)
			}
		}
		return scan(row)
	}, query)
	return s.db.wrap("read table "+t.Name, err)
}

func (b *sqliteDB) readPool() *sql.DB {
	return b.openPool("mode=ro", "busy_timeout(10000)", "query_only(true)", "cache_size(-16384)")
}

func (b *postgresDB) readPool() *sql.DB { return b.leasePool() }

func (b *mysqlDB) readPool() *sql.DB { return b.leasePool() }

func (b *sqliteDB) snapshot() []string { return []string{"BEGIN"} }

// The transaction may stand still while what was read is written elsewhere.
func (b *postgresDB) snapshot() []string {
	return []string{"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "SET LOCAL idle_in_transaction_session_timeout = 0"}
}

func (b *mysqlDB) snapshot() []string {
	return []string{
		"SET SESSION /*M!100300 idle_transaction_timeout = 0, */ net_write_timeout = 3600",
		"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
	}
}
