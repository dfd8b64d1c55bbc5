package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// ErrNewerSchema is wrapped by errors of [DB.Open] for a database that a newer version of the program
// has changed.
var ErrNewerSchema = errors.New("sqldb: the database is of a newer version")

//go:embed migrations
var migrations embed.FS

// migrate brings the schema up to date. With checkOnly it changes nothing, and reports whether there
// is something to do.
func migrate(ctx context.Context, b backend, db *sql.DB, checkOnly bool) (pending bool, err error) {
	p, err := provider(b, db)
	if err != nil {
		return false, err
	}
	has, knows, err := p.GetVersions(ctx)
	if err != nil {
		return false, err
	}
	if has > knows {
		return false, newerSchema(has, knows)
	}
	if checkOnly || has == knows {
		return has < knows, nil
	}
	_, err = p.Up(ctx)
	return false, err
}

// migrateTo makes the schema of a version in a database that has none; 0 is the newest. Errors:
// ErrNewerSchema.
func migrateTo(ctx context.Context, b backend, db *sql.DB, version int64) error {
	p, err := provider(b, db)
	if err != nil {
		return err
	}
	knows := newest(p)
	if version > knows {
		return newerSchema(version, knows)
	}
	_, err = p.UpTo(ctx, cmp.Or(version, knows))
	return err
}

// provider returns what runs the migrations of a database.
func provider(b backend, db *sql.DB) (*goose.Provider, error) {
	dialect := b.dialect()
	dir := string(dialect)
	if dialect == goose.DialectSQLite3 {
		dir = "sqlite"
	}
	files, err := fs.Sub(migrations, "migrations/"+dir)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, db, files, goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
}

// newest returns the greatest version that the program knows.
func newest(p *goose.Provider) int64 {
	all := p.ListSources()
	return all[len(all)-1].Version
}

// newerSchema returns the error for a schema that this program does not know.
func newerSchema(has, knows int64) error {
	return fmt.Errorf("%w: its schema is %d, this program knows %d; run the newer program, or restore a backup from before it",
		ErrNewerSchema, has, knows)
}
