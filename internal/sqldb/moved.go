package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// ErrMoved is wrapped by errors of [DB.Open] and [OpenShared] about a database whose fleet was moved to
// another one, or that is not filled yet with the fleet of another one.
var ErrMoved = errors.New("sqldb: the fleet is not kept here")

// Mark says that a database must not be opened, and why.
type Mark struct {
	Filling bool      // the fleet is on its way here; else it was moved away
	Fleet   string    // its identity, see [DB.ID]
	Other   string    // description of the other database, without a password
	Version int64     // of the schema that is filled; 0 while its tables are made or changed
	At      time.Time // when the mark was made
}

// Err returns the error for a database at a place that has the mark; nil without one.
func (m *Mark) Err(place string) error {
	switch {
	case m == nil:
		return nil
	case m.Filling:
		return fmt.Errorf("%w yet: since %s, %s is being filled with the fleet of %s, and that has not come to its end; "+
			"run the same \"holter restore\" or \"holter migrate\" again", ErrMoved, m.time(), place, m.Other)
	}
	return fmt.Errorf("%w any more: this fleet was moved from %s to %s, at %s; start with that database, "+
		"or go back with \"holter migrate --undo\", which forgets what the fleet has done there", ErrMoved, place, m.Other, m.time())
}

func (m *Mark) time() string { return m.At.UTC().Format("2006-01-02 15:04:05 MST") }

// markOf reads the mark of a database; nil if it has none. The table is no part of the migrations: a
// database that is to be filled has no schema yet.
func markOf(ctx context.Context, b backend, q *sql.DB) (*Mark, error) {
	if _, ok := b.(*sqliteDB); ok { // it has no error of its own for a table that is not there
		n := 0
		err := q.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?", movedTable).Scan(&n)
		if err != nil || n == 0 {
			return nil, err
		}
	}
	var m Mark
	var filling, at int64
	err := q.QueryRowContext(ctx, "SELECT filling, fleet, other, version, at FROM "+movedTable+" WHERE id = 1").Scan(&filling, &m.Fleet, &m.Other, &m.Version, &at)
	if errors.Is(err, sql.ErrNoRows) || isNoTable(err) {
		return nil, nil
	}
	m.Filling, m.At = filling != 0, Time(at)
	return &m, err
}

// makeMarks makes the table of the mark.
func makeMarks(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+movedTable+
		" (id BIGINT PRIMARY KEY, filling BIGINT NOT NULL, fleet VARCHAR(64) NOT NULL, other VARCHAR(1000) NOT NULL, version BIGINT NOT NULL, at BIGINT NOT NULL)")
	return err
}

// put writes the mark in place of the one before.
func (m *Mark) put(ctx context.Context, b backend, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+movedTable); err != nil {
		return err
	}
	_, err := exec(ctx, b, tx, "INSERT INTO "+movedTable+" (id, filling, fleet, other, version, at) VALUES (1, ?, ?, ?, ?, ?)",
		m.Filling, m.Fleet, fmt.Sprintf("%.1000s", m.Other), m.Version, m.At)
	return err
}

// checkMark returns an error if the database must not be opened.
func (db *DB) checkMark(ctx context.Context, c *conns) error {
	m, err := markOf(ctx, db.backend, c.write)
	if err != nil || m != nil && !m.Filling && db.config.Moved {
		return err
	}
	return m.Err(db.Place())
}

// MoveAway marks the database as one whose fleet was moved to another one: from here on nobody opens it,
// but for [Config].Moved. Errors: those of [DB.Write].
func (db *DB) MoveAway(ctx context.Context, to string) error {
	c := db.current()
	if c == nil {
		return ErrNotOpen
	}
	if err := makeMarks(ctx, c.write); err != nil {
		return db.wrap("make the table of the mark", err)
	}
	m := Mark{Fleet: db.ID(), Other: to, At: db.Now()}
	return db.Write(ctx, "mark the fleet as moved", func(ctx context.Context, tx Tx) error {
		return m.put(ctx, db.backend, tx.tx)
	})
}

// MoveBack takes the mark away.
func (db *DB) MoveBack(ctx context.Context) error {
	return db.Write(ctx, "take the mark away", func(ctx context.Context, tx Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM "+movedTable)
		return err
	})
}

// Kept is what is kept in a database that is not open.
type Kept struct {
	Fleet string // identity of the fleet, see [DB.ID]; "" if there is none
	Mark  *Mark  // nil if there is none
}

// Kept returns what is kept in a database. It needs neither Open nor a schema, and changes nothing. Errors:
// those of the database.
func (db *DB) Kept(ctx context.Context) (k Kept, err error) {
	if file, ok := db.backend.(*sqliteDB); ok {
		if info, err := os.Stat(file.path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
			return k, nil
		}
	}
	pool := db.backend.readPool()
	defer func() { err = db.wrap("look", errors.Join(err, pool.Close())) }()
	if k.Mark, err = markOf(ctx, db.backend, pool); err != nil {
		return k, err
	}
	tables, err := catalogue(ctx, db.backend, pool)
	if err != nil || !slices.ContainsFunc(tables, func(t TableInfo) bool { return t.Name == "meta" }) {
		return k, err
	}
	err = pool.QueryRowContext(ctx, "SELECT COALESCE(MAX(store_id), '') FROM meta").Scan(&k.Fleet)
	return k, err
}
