package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/holter-iot/holter/internal/sqldb"
)

// openFile returns a backup to be read. It changes nothing. Errors: ErrDamaged for what cannot be one.
func openFile(path string) (*sqldb.DB, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	if err := checkMagic(path); err != nil {
		return nil, err
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is a database that is in use, or was not closed: %[1]s-wal is beside it; make a backup of it with \"holter backup\"", path)
	}
	return sqldb.OpenFile(path)
}

// magic is how a file of SQLite begins.
const magic = "SQLite format 3\x00"

// checkMagic returns an error if a file is none of SQLite. Errors: ErrDamaged, and those of the system.
func checkMagic(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	begin := make([]byte, len(magic))
	n, err := io.ReadFull(f, begin)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %s is empty", ErrDamaged, path)
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case string(begin) != magic:
		return fmt.Errorf("%w: %s is no backup, nor any other database of SQLite", ErrDamaged, path)
	}
	return nil
}

// Verify reads a backup, all of it, and returns what it is of. A file that another program has made of a
// database in a file has no checksums: then only SQLite's own check is made. It changes nothing. Errors:
// ErrDamaged, [sqldb.ErrNoFleet], [sqldb.ErrNewerSchema].
func Verify(ctx context.Context, path string) (b Backup, err error) {
	db, err := openFile(path)
	if err != nil {
		return b, err
	}
	err = db.Snapshot(ctx, func(ctx context.Context, s *sqldb.Snapshot) error {
		b, err = verify(ctx, s)
		return err
	})
	if info, bad := os.Stat(path); bad == nil {
		b.Bytes = info.Size()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return b, err
}

func verify(ctx context.Context, s *sqldb.Snapshot) (b Backup, err error) {
	sound := ""
	if err := s.Scan(ctx, "PRAGMA integrity_check(1)", &sound); err != nil {
		return b, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if sound != "ok" {
		return b, fmt.Errorf("%w: %s", ErrDamaged, sound)
	}
	told, sums, err := readInfo(ctx, s)
	if err != nil {
		return b, err
	}
	b.Schema = s.Version
	if told != nil {
		b, b.Checked = *told, true
	}
	var checkpoint int64
	if err := s.Scan(ctx, "SELECT store_id, checkpoint_at FROM meta WHERE id = 1", &b.Fleet, &checkpoint); err != nil {
		return b, fmt.Errorf("%w: the table meta: %w", sqldb.ErrNoFleet, err)
	}
	b.Checkpoint = sqldb.Time(checkpoint)
	tables := s.Tables
	if told != nil {
		tables = append(tables, *filesColumns())
	}
	for i := range tables {
		t := &tables[i]
		sum, err := sumOf(ctx, s, t, "")
		if err != nil {
			return b, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		b.Rows += sum.Rows
		if told != nil && !skipped(t.Name) && sums[t.Name] != sum.text() {
			return b, fmt.Errorf("%w: table %s has %d rows that are not what was written", ErrDamaged, t.Name, sum.Rows)
		}
	}
	return b, nil
}
