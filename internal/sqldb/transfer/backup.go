package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Options say how a backup is made.
type Options struct {
	Replace bool     // a backup that is there is replaced, once the new one is complete
	Program string   // name and version of the program, for people
	Dir     string   // data directory of the server, whose Files are kept, too; "" for none
	Files   []string // names of files in Dir that may not be there
	Tell    Progress // nil for nobody
}

// Backup is what a backup is of.
type Backup struct {
	Fleet      string    // identity of the fleet, see [sqldb.DB.ID]
	Source     string    // description of the database
	Program    string    // that made it
	Schema     int64     // version of its tables
	Made       time.Time // the instant that it shows
	Checkpoint time.Time // the instant that its heartbeats show; zero if there was none
	Rows       int64
	Bytes      int64
	Checked    bool // by checksums; false for a file that another program has made
}

// Make writes a backup of a database into a file, while the fleet goes on, and reads it again. The file is
// there as a whole or not at all. Errors: [fs.ErrExist], [sqldb.ErrNoFleet], [sqldb.ErrFull], ErrDamaged, and
// those of the database and the system.
func Make(ctx context.Context, db *sqldb.DB, path string, o Options) (b Backup, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return b, err
	}
	if err := free(ctx, path, o.Replace); err != nil {
		return b, err
	}
	kept, err := db.Kept(ctx)
	if err != nil {
		return b, err
	}
	if kept.Mark != nil && kept.Mark.Filling { // not all is there yet
		return b, kept.Mark.Err(db.Place())
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // for the owner only
	if err != nil {
		return b, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name()) // it is of no use
			_ = os.Remove(temp.Name() + "-journal")
		}
	}()
	if err := temp.Close(); err != nil {
		return b, err
	}
	if err := write(ctx, db, temp.Name(), o); err != nil {
		return b, err
	}
	if b, err = Verify(ctx, temp.Name()); err != nil {
		return b, fmt.Errorf("the backup was written, and read again: %w", err)
	}
	if err := free(ctx, path, o.Replace); err != nil { // somebody may have made it meanwhile
		return b, err
	}
	return b, sqldb.PutInPlace(temp.Name(), path)
}

// free returns an error if a file must not be written. What is replaced must be a backup itself, or empty: it
// might be the database that the backup is of, or what lies beside it.
func free(ctx context.Context, path string, replace bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	case !replace:
		return fmt.Errorf("%w; choose another name, or replace it with --force", &fs.PathError{Op: "write", Path: path, Err: fs.ErrExist})
	case info.Size() > 0 && !isBackup(ctx, path):
		return fmt.Errorf("%s is no backup, and only a backup is replaced; choose another name", path)
	}
	return nil
}

// isBackup reports whether a file is a backup by what it says about itself.
func isBackup(ctx context.Context, path string) bool {
	db, err := openFile(path)
	if err != nil {
		return false
	}
	var b *Backup
	err = db.Snapshot(ctx, func(ctx context.Context, s *sqldb.Snapshot) (err error) {
		b, _, err = readInfo(ctx, s)
		return err
	})
	return err == nil && b != nil
}

// write writes a backup into an empty file.
func write(ctx context.Context, db *sqldb.DB, path string, o Options) error {
	return db.Snapshot(ctx, func(ctx context.Context, s *sqldb.Snapshot) (err error) {
		made := time.Now()
		to, err := sqldb.NewFile(ctx, path, s.Version)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Close()) }()
		c := copier{from: s, to: to, tell: o.Tell}
		sums := map[string]Sum{}
		for i := range s.Tables {
			t := &s.Tables[i]
			if skipped(t.Name) {
				continue
			}
			if sums[t.Name], err = c.whole(ctx, t); err != nil { // migrations insert rows
				return err
			}
		}
		files, err := filesOf(o.Dir, o.Files)
		if err != nil {
			return err
		}
		if sums[filesTable], err = putFiles(ctx, to, files); err != nil {
			return err
		}
		return putInfo(ctx, to, Backup{Source: db.Place(), Program: o.Program, Schema: s.Version, Made: made}, sums)
	})
}
