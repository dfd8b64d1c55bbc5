package sqldb

import (
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
	dialect, _ := b.dialect()
	dir := string(dialect)
	if dialect == goose.DialectSQLite3 {
		dir = "sqlite"
	}
	files, err := fs.Sub(migrations, "migrations/"+dir)
	if err != nil {
		return false, err
	}
	p, err := goose.NewProvider(dialect, db, files, goose.WithTableName("schema_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return false, err
	}
	has, knows, err := p.GetVersions(ctx)
	if err != nil {
		return false, err
	}
	if has > knows {
		return false, fmt.Errorf("%w: its schema is %d, this program knows %d; run the newer program, or restore a backup from before it",
			ErrNewerSchema, has, knows)
	}
	if checkOnly || has == knows {
		return has < knows, nil
	}
	_, err = p.Up(ctx)
	return false, err
}
