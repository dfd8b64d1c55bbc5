package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"slices"
)

// What is in a database beside the tables of a fleet: how far the migrations have come, whose the lease is,
// the mark of a fleet that has moved, and what a backup says about itself.
const (
	versionTable = "schema_version"
	judgeTable   = "judge"
	movedTable   = "moved"
)

// outsideFleet reports whether a table is no part of the fleet, but about this very database.
func outsideFleet(table string) bool {
	return slices.Contains([]string{versionTable, judgeTable, movedTable}, table)
}

// serverTables are those that the migrations make on servers only.
func serverTables() []string { return []string{"holter_outbox"} }

// FleetTables returns the tables of a fleet whose schema has a version, 0 for that of this program: those
// that the migrations make in a file, which it tries out. They are the same in all databases, but for those
// that servers have beside them.
func FleetTables(ctx context.Context, version int64) (tables []TableInfo, err error) {
	b := &sqliteDB{path: ":memory:"}
	pool, err := sql.Open("sqlite", b.path)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1) // each connection would have a memory of its own
	defer func() { err = errors.Join(err, pool.Close()) }()
	if err := migrateTo(ctx, b, pool, version); err != nil {
		return nil, err
	}
	if tables, err = catalogue(ctx, b, pool); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(tables, func(t TableInfo) bool { return outsideFleet(t.Name) }), nil
}
