package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"time"
)

// NewTable returns a table that is no part of a fleet, with columns in an order.
func NewTable(name string, kinds map[string]ColumnKind, order ...string) *TableInfo {
	t := &TableInfo{Name: name}
	for _, c := range order {
		t.Columns = append(t.Columns, Column{Name: c, Kind: kinds[c]})
	}
	return t
}

// NewFile returns a file to be filled that becomes no database of a server, and has the tables of a fleet
// whose schema has a version. The file must be there and be empty. Nobody else must use it, so no lock is
// taken; it is complete when [Target.Close] has returned. Errors: ErrNewerSchema, and those of the system.
func NewFile(ctx context.Context, path string, version int64) (*Target, error) {
	b := &sqliteDB{path: path}
	t := &Target{db: &DB{config: Config{Wall: time.Now}, backend: b}, backend: b, pool: b.fillPool("OFF"), lock: noLock{}}
	err := migrateTo(ctx, b, t.pool, version)
	if err == nil {
		t.tables, err = catalogue(ctx, b, t.pool)
	}
	if err != nil {
		return nil, t.db.wrap("make", errors.Join(err, t.Close()))
	}
	return t, nil
}

// noLock is the lock of a file that nobody else uses.
type noLock struct{}

func (noLock) check(context.Context) error { return nil }

func (noLock) release() error { return nil }

// OpenFile returns a database in a file that nobody writes, for [DB.Snapshot] only: it leaves no trace, and may
// be where nothing can be written. Errors: ErrBadURL.
func OpenFile(path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &DB{config: Config{Wall: time.Now}, backend: still{&sqliteDB{path: path}}}, nil
}

// still is a database in a file that nobody writes.
type still struct{ *sqliteDB }

func (b still) readPool() *sql.DB {
	return b.openPool("mode=ro&immutable=1", "query_only(true)", "cache_size(-16384)")
}
