package transfer

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/holter-iot/holter/internal/sqldb"
)

// The tables of a backup beside those of the fleet.
const (
	infoTable  = "backup_info"
	sumsTable  = "backup_tables"
	filesTable = "backup_files"
)

// format is the version of these tables.
const format = 1

func infoColumns() *sqldb.TableInfo {
	return sqldb.NewTable(infoTable, map[string]sqldb.ColumnKind{
		"format": sqldb.KindInt, "source": sqldb.KindText, "program": sqldb.KindText, "schema": sqldb.KindInt, "made": sqldb.KindInt,
	}, "format", "source", "program", "schema", "made")
}

func sumsColumns() *sqldb.TableInfo {
	return sqldb.NewTable(sumsTable, map[string]sqldb.ColumnKind{
		"name": sqldb.KindText, "count": sqldb.KindInt, "sum": sqldb.KindText,
	}, "name", "count", "sum")
}

func filesColumns() *sqldb.TableInfo {
	return sqldb.NewTable(filesTable, map[string]sqldb.ColumnKind{
		"name": sqldb.KindText, "mode": sqldb.KindInt, "data": sqldb.KindBytes,
	}, "name", "mode", "data")
}

// file is a file of the data directory.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// filesOf reads those files of a directory that are there.
func filesOf(dir string, names []string) (files []file, err error) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || dir == "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, info.Mode().Perm(), data})
	}
	return files, nil
}

func putFiles(ctx context.Context, to *sqldb.Target, files []file) (sum Sum, err error) {
	var h hasher
	rows := make([]sqldb.Row, len(files))
	for i, f := range files {
		rows[i] = sqldb.Row{f.name, int64(f.mode), f.data}
		h.add(&sum, rows[i])
	}
	return sum, to.Put(ctx, filesColumns(), rows)
}

// putInfo writes what a backup says about itself. It comes last: without it a file is no backup.
func putInfo(ctx context.Context, to *sqldb.Target, b Backup, sums map[string]Sum) error {
	var rows []sqldb.Row
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		rows = append(rows, sqldb.Row{name, sums[name].Rows, sums[name].text()})
	}
	if err := to.Put(ctx, sumsColumns(), rows); err != nil {
		return err
	}
	return to.Put(ctx, infoColumns(), []sqldb.Row{{int64(format), b.Source, b.Program, b.Schema, sqldb.Nanos(b.Made)}})
}

// readInfo reads what a backup says about itself; nil if it says nothing.
func readInfo(ctx context.Context, s *sqldb.Snapshot) (*Backup, map[string]string, error) {
	n := 0
	if err := s.Scan(ctx, "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = '"+infoTable+"'", &n); err != nil || n == 0 {
		return nil, nil, err
	}
	var b Backup
	var made int64
	var version int64
	err := s.Scan(ctx, "SELECT format, source, program, schema, made FROM "+infoTable, &version, &b.Source, &b.Program, &b.Schema, &made)
	if err != nil {
		return nil, nil, err
	}
	if version > format {
		return nil, nil, sqldb.ErrNewerSchema
	}
	b.Made = sqldb.Time(made)
	sums := map[string]string{}
	err = s.Each(ctx, sumsColumns(), "", func(row sqldb.Row) error {
		name, _ := row[0].(string)
		sum, _ := row[2].(string)
		sums[name] = sum
		return nil
	})
	return &b, sums, err
}

// readFiles reads the files of a backup.
func readFiles(ctx context.Context, s *sqldb.Snapshot) (files []file, err error) {
	err = s.Each(ctx, filesColumns(), "", func(row sqldb.Row) error {
		name, _ := row[0].(string)
		mode, _ := row[1].(int64)
		data, _ := row[2].([]byte)
		files = append(files, file{name, fs.FileMode(mode).Perm(), slices.Clone(data)})
		return nil
	})
	return files, err
}
