package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// ErrNotEmpty is wrapped by errors of [DB.Fill] about a database in which a fleet is kept already.
var ErrNotEmpty = errors.New("sqldb: another fleet is kept there")

// Filling says with what a database is filled.
type Filling struct {
	Fleet   string // identity of the fleet, see [DB.ID]
	From    string // description of where it comes from
	Version int64  // of its schema
	Replace bool   // the fleet that is kept there is given up
}

// Target is a database that is being filled with a fleet from elsewhere. Until [Target.Finish] has
// succeeded nobody opens it. A file is filled beside its place, so that what is there stays until then.
// Use it in one goroutine.
type Target struct {
	// Begun reports that an earlier process has begun to fill it with the same fleet: what it has put is
	// there.
	Begun bool

	db      *DB
	backend backend // of the file beside the place, or of the server
	pool    *sql.DB
	lock    lock
	tenure  *tenure
	tables  []TableInfo // as the database lists them
	term    int64       // that was there before; 0 if there was none
}

// endOfFilling is the end of the name of a file that is being filled.
const endOfFilling = ".filling"

// Fill begins to fill the database, under the lock of a file or the lease of a server, as [DB.Open] takes
// them. The database must not be open. Errors: ErrLocked, ErrNotEmpty, ErrNewerSchema, and those of the
// database.
func (db *DB) Fill(ctx context.Context, f Filling) (*Target, error) {
	t := &Target{db: db, backend: db.backend, tenure: newTenure()}
	if err := t.open(ctx, f); err != nil {
		return nil, db.wrap("fill", errors.Join(err, t.Close()))
	}
	return t, nil
}

func (t *Target) open(ctx context.Context, f Filling) (err error) {
	file, inFile := t.backend.(*sqliteDB)
	if inFile {
		if err := file.prepareDir(); err != nil {
			return err
		}
	}
	// The name is that of a process before, which may have been killed: its lease is taken over soon.
	if t.lock, err = t.db.takeLock(ctx, fmt.Sprintf("%.40s/filling", t.db.config.Node), t.tenure); err != nil {
		return err
	}
	if t.term, err = t.db.occupied(ctx, f); err != nil {
		return err
	}
	if inFile {
		t.backend = &sqliteDB{path: file.path + endOfFilling}
		t.pool = t.backend.(*sqliteDB).fillPool("DELETE")
		if err := t.backend.prepare(); err != nil {
			return err
		}
	} else {
		t.pool = t.backend.leasePool()
		t.pool.SetMaxOpenConns(2) // one may be given up
	}
	was, err := markOf(ctx, t.backend, t.pool)
	if err != nil {
		if !inFile {
			return err
		}
		was = nil // a file that was cut off is begun anew
	}
	t.Begun = was != nil && was.Filling && was.Fleet == f.Fleet && was.Version == f.Version
	if !t.Begun {
		if err := t.begin(ctx, f); err != nil {
			return err
		}
	}
	t.tables, err = catalogue(ctx, t.backend, t.pool)
	return err
}

// occupied returns the term of a database that may be filled. Errors: ErrNotEmpty.
func (db *DB) occupied(ctx context.Context, f Filling) (term int64, err error) {
	if file, ok := db.backend.(*sqliteDB); ok {
		info, err := os.Stat(file.path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
			return 0, nil
		}
	}
	pool := db.backend.readPool()
	defer func() { err = errors.Join(err, pool.Close()) }()
	tables, err := catalogue(ctx, db.backend, pool)
	if err != nil {
		if _, ok := db.backend.(*sqliteDB); ok && f.Replace { // it is damaged: that may be why
			return 0, nil
		}
		return 0, err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(tables, func(t TableInfo) bool { return t.Name == name })
	}
	if has(judgeTable) {
		err = pool.QueryRowContext(ctx, "SELECT COALESCE(MAX(term), 0) FROM judge").Scan(&term)
	}
	if err != nil || !has("meta") {
		return term, err
	}
	var fence, tokens int64
	if err := pool.QueryRowContext(ctx, "SELECT COALESCE(MAX(fence), 0), (SELECT COUNT(*) FROM tokens) FROM meta").Scan(&fence, &tokens); err != nil {
		return 0, err
	}
	term = max(term, fence)
	mark, err := markOf(ctx, db.backend, pool)
	if err != nil || f.Replace || mark != nil && mark.Filling || fence == 0 && tokens == 0 {
		return term, err
	}
	return 0, fmt.Errorf("%w: %s is not empty; choose an empty one, or give up what is there with --force", ErrNotEmpty, db.Place())
}

// begin deletes what is there and makes the tables.
func (t *Target) begin(ctx context.Context, f Filling) error {
	if file, ok := t.backend.(*sqliteDB); ok {
		if err := t.pool.Close(); err != nil {
			return err
		}
		if err := errors.Join(removeFile(file.path), removeFile(file.path+"-journal"), file.prepare()); err != nil {
			return err
		}
		t.pool = file.fillPool("DELETE")
	}
	if err := makeMarks(ctx, t.pool); err != nil {
		return err
	}
	m := Mark{Filling: true, Fleet: f.Fleet, Other: f.From, At: t.db.Now()} // without a version until all tables are there
	if err := t.mark(ctx, m); err != nil {
		return err
	}
	if err := t.clear(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 10*patience)
	defer cancel()
	if err := migrateTo(limited, t.backend, t.pool, f.Version); err != nil {
		return err
	}
	m.Version = f.Version
	return t.mark(ctx, m)
}

// mark writes the mark.
func (t *Target) mark(ctx context.Context, m Mark) error {
	return t.write(ctx, func(tx *sql.Tx) error { return m.put(ctx, t.backend, tx) })
}

// clear drops the tables of a fleet on a server, also those of a newer schema, and what belongs to them.
func (t *Target) clear(ctx context.Context) error {
	if _, ok := t.backend.(*sqliteDB); ok {
		return nil
	}
	there, err := catalogue(ctx, t.backend, t.pool)
	if err != nil {
		return err
	}
	ours, err := FleetTables(ctx, 0)
	if err != nil {
		return err
	}
	// meta first: a judge that is cut off, and does not know it yet, changes nothing without its row.
	drop := []string{"meta", versionTable}
	for i := range ours {
		drop = append(drop, ours[i].Name)
	}
	statements := []string{"DROP VIEW IF EXISTS event_list", "DROP VIEW IF EXISTS device_list"}
	for _, name := range append(drop, serverTables()...) {
		if slices.ContainsFunc(there, func(t TableInfo) bool { return t.Name == name }) {
			statements = append(statements, "DROP TABLE IF EXISTS "+name)
		}
	}
	if _, ok := t.backend.(*postgresDB); ok {
		statements = append(statements, "DROP FUNCTION IF EXISTS holter_outbox_notify()")
	}
	for _, statement := range statements {
		if _, err := t.pool.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// write runs a transaction.
func (t *Target) write(ctx context.Context, do func(tx *sql.Tx) error) error {
	if err := t.lock.check(ctx); err != nil {
		return err
	}
	tx, err := t.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Delete deletes the rows of a table that meet a condition, all if it is empty. A file may lack a table that
// only servers have.
func (t *Target) Delete(ctx context.Context, table, where string) error {
	if !slices.ContainsFunc(t.tables, func(own TableInfo) bool { return own.Name == table }) {
		return nil
	}
	query := "DELETE FROM " + table
	if where != "" {
		query += " WHERE " + where
	}
	return t.db.wrap("delete", t.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query)
		return err
	}))
}

// Scan scans the first row of a query.
func (t *Target) Scan(ctx context.Context, query string, dest ...any) error {
	return t.db.wrap("read", t.pool.QueryRowContext(ctx, query).Scan(dest...))
}

// Snapshot lets do read what is there, see [DB.Snapshot].
func (t *Target) Snapshot(ctx context.Context, do func(ctx context.Context, s *Snapshot) error) error {
	beside := &DB{config: t.db.config, backend: t.backend}
	return beside.Snapshot(ctx, do)
}

// restartsPerRestore is by how much a restore raises the term: a fleet may have had so many judges after
// its backup was made, and whoever knows their terms must take the next one for newer.
const restartsPerRestore = 100_000

// Finish makes the database that of the fleet: nobody who had it before can write to it, and the next
// Open succeeds. after is a term that is known to have been given. A restored fleet has an older state
// than others may know: then terms go on far beyond after, and what was heard after the last checkpoint is
// forgotten. Errors as those of Fill.
func (t *Target) Finish(ctx context.Context, after int64, restored bool) error {
	return t.db.wrap("finish", t.finish(ctx, after, restored))
}

func (t *Target) finish(ctx context.Context, after int64, restored bool) error {
	term := max(after, t.term) + 1
	forget := ""
	if restored {
		term += restartsPerRestore
		forget = ", memory = '" + noMemory + "'"
	}
	nonce := newNonce()
	err := t.write(ctx, func(tx *sql.Tx) error {
		_, err := exec(ctx, t.backend, tx, "UPDATE meta SET fence = ?, nonce = ?"+forget+" WHERE id = 1", term, nonce)
		return err
	})
	if err != nil {
		return err
	}
	if err := t.bringUp(ctx); err != nil {
		return err
	}
	id := ""
	if err := t.pool.QueryRowContext(ctx, "SELECT store_id FROM meta WHERE id = 1").Scan(&id); err != nil {
		return err
	}
	if _, ok := t.backend.(*sqliteDB); ok {
		if err := t.place(ctx); err != nil {
			return err
		}
		return t.db.keepNotes(id)
	}
	if err := t.db.keepNotes(id); err != nil {
		return err
	}
	return t.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM "+movedTable)
		return err
	})
}

// bringUp brings the schema up to date. If that is ended early, the database is filled from the beginning again.
func (t *Target) bringUp(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 10*patience)
	defer cancel()
	pending, err := migrate(limited, t.backend, t.pool, true)
	if err != nil || !pending {
		return err
	}
	err = t.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE "+movedTable+" SET version = 0")
		return err
	})
	if err != nil {
		return err
	}
	_, err = migrate(limited, t.backend, t.pool, false)
	return err
}

// noMemory is the key of a memory that nobody has.
const noMemory = "00000000000000000000000000000000"

// Close lets go of the database. One that is not finished stays as it is, and can be filled on.
func (t *Target) Close() error {
	var errs []error
	if t.pool != nil {
		errs = append(errs, t.pool.Close())
	}
	if t.lock != nil {
		errs = append(errs, t.lock.release())
	}
	t.pool, t.lock = nil, nil
	return errors.Join(errs...)
}

// removeFile removes a file if it is there.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
