package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Restore puts a backup into a database, which must be empty unless replace gives up what is there, and
// its files into dir. No server must be at work on it. The fleet goes on from the instant of the backup: see
// [sqldb.Target.Finish] for what that means to others. A backup of an older version is brought up to date.
// After an error, or if the process is killed, nobody opens the database until a Restore has succeeded;
// what was in a file is still there. Errors: as those of [Verify], and of [sqldb.DB.Fill].
func Restore(ctx context.Context, path string, db *sqldb.DB, dir string, replace bool, tell Progress) (b Backup, err error) {
	if b, err = Verify(ctx, path); err != nil {
		return b, err
	}
	from, err := openFile(path)
	if err != nil {
		return b, err
	}
	err = from.Snapshot(ctx, func(ctx context.Context, s *sqldb.Snapshot) (err error) {
		var files []file
		if b.Checked {
			if files, err = readFiles(ctx, s); err != nil {
				return err
			}
		}
		if err := clash(dir, files, replace); err != nil {
			return err
		}
		to, err := db.Fill(ctx, sqldb.Filling{Fleet: b.Fleet, From: "the backup " + path, Version: b.Schema, Replace: replace})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Close()) }()
		term := int64(0)
		if err := s.Scan(ctx, "SELECT fence FROM meta WHERE id = 1", &term); err != nil {
			return err
		}
		if err := copyAll(ctx, s, to, tell); err != nil {
			return err
		}
		if err := writeFiles(dir, files); err != nil {
			return err
		}
		return to.Finish(ctx, term, true)
	})
	return b, err
}

// copyAll copies all tables in place of what the target has in them, and reads them again.
func copyAll(ctx context.Context, s *sqldb.Snapshot, to *sqldb.Target, tell Progress) error {
	c := copier{from: s, to: to, tell: tell}
	sums := map[string]Sum{}
	for i := range s.Tables {
		t := &s.Tables[i]
		if skipped(t.Name) {
			continue
		}
		sum, err := c.whole(ctx, t)
		if err != nil {
			return err
		}
		sums[t.Name] = sum
	}
	return compare(ctx, to, sums)
}

// compare reads tables of a target, and compares them with what was read of the source.
func compare(ctx context.Context, to *sqldb.Target, sums map[string]Sum) error {
	return to.Snapshot(ctx, func(ctx context.Context, s *sqldb.Snapshot) error {
		for name, read := range sums {
			written := Sum{}
			if t := s.Table(name); t != nil {
				var err error
				if written, err = sumOf(ctx, s, t, ""); err != nil {
					return err
				}
			}
			if err := differs(name, read, written); err != nil {
				return err
			}
		}
		return nil
	})
}

// clash returns an error if a directory has other files than those of a backup in their places.
func clash(dir string, files []file, replace bool) error {
	for _, f := range files {
		was, err := os.ReadFile(filepath.Join(dir, f.name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !bytes.Equal(was, f.data) && !replace:
			return fmt.Errorf("%s is there, and is another one than in the backup; move it away, or replace it with --force", filepath.Join(dir, f.name))
		}
	}
	return nil
}

// writeFiles writes files into a directory, each as a whole or not at all.
func writeFiles(dir string, files []file) error {
	for _, f := range files {
		if f.name != filepath.Base(f.name) || f.name == "." || f.name == ".." {
			return fmt.Errorf("%w: it has a file of the name %q", ErrDamaged, f.name)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path+".new", f.data, 0o600); err != nil {
			return err
		}
		if err := errors.Join(os.Chmod(path+".new", f.mode), sqldb.PutInPlace(path+".new", path)); err != nil {
			return err
		}
	}
	return nil
}
