package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// place puts a file that was filled in its place, as a whole or not at all. A file that is there is given
// up; its log is folded into it before, so that nobody takes it for a part of the new one.
func (t *Target) place(ctx context.Context) error {
	filled := t.backend.(*sqliteDB)
	path := strings.TrimSuffix(filled.path, endOfFilling)
	if _, err := t.pool.ExecContext(ctx, "DROP TABLE "+movedTable); err != nil {
		return err
	}
	if err := t.pool.Close(); err != nil {
		return err
	}
	if err := foldLog(ctx, path); err != nil {
		return err
	}
	return PutInPlace(filled.path, path)
}

// PutInPlace makes sure that a file is on the disk, and gives it its name, in the same directory. A file of that
// name is replaced.
func PutInPlace(from, to string) error {
	f, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// foldLog makes a database in a file, which nobody uses, one without a log beside it.
func foldLog(ctx context.Context, path string) error {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		old := (&sqliteDB{path: path}).openPool("mode=rw", "busy_timeout(10000)")
		_, err := old.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		_ = errors.Join(err, old.Close()) // one that is damaged is given up all the same
	}
	return errors.Join(removeFile(path+"-wal"), removeFile(path+"-shm"))
}

// unfinished returns an error if the file is not there, and is being filled.
func (b *sqliteDB) unfinished() error {
	if _, err := os.Stat(b.path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(b.path + endOfFilling); err != nil {
		return nil //nolint:nilerr // it is not there, or is nothing that this start depends on
	}
	return fmt.Errorf("%w yet: %s%s was begun and has not come to its end; run the same \"holter restore\" or \"holter migrate\" again, or delete that file",
		ErrMoved, b.path, endOfFilling)
}
