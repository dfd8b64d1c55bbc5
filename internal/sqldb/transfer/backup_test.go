package transfer_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/sqldb/transfer"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

// backup returns a backup of a fleet, and the fleet.
func backup(tb testing.TB) (file string, db *sqldb.DB) {
	tb.Helper()
	db = fleet(tb, testdb.SQLite(tb))
	file = filepath.Join(tb.TempDir(), "b.db")
	if _, err := transfer.Make(tb.Context(), db, file, transfer.Options{}); err != nil {
		tb.Fatal(err)
	}
	return file, db
}

func TestMakeRefuses(t *testing.T) {
	file, db := backup(t)
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Make(t.Context(), db, file, transfer.Options{}); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("over a file: %v", err)
	}
	if is, _ := os.ReadFile(file); string(is) != string(was) {
		t.Error("the file was changed")
	}
	if _, err := transfer.Make(t.Context(), db, file, transfer.Options{Replace: true}); err != nil {
		t.Errorf("with Replace: %v", err)
	}
	if _, err := transfer.Make(t.Context(), db, filepath.Dir(file), transfer.Options{Replace: true}); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("over a directory: %v", err)
	}
	if _, err := transfer.Make(t.Context(), db, db.Place(), transfer.Options{Replace: true}); err == nil || !strings.Contains(err.Error(), "is no backup") {
		t.Errorf("over the database itself: %v", err)
	}
	none := testsqldb.New(t, sqldb.Config{URL: testdb.EmptySQLite(t)})
	if _, err := transfer.Make(t.Context(), none, filepath.Join(t.TempDir(), "x"), transfer.Options{}); err == nil {
		t.Error("of nothing: no error")
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Whatever becomes of a backup, it is noticed.
func TestVerifyFindsDamage(t *testing.T) {
	file, _ := backup(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(name string, do func(path string) error) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "b.db")
			if err := errors.Join(os.WriteFile(path, whole, 0o600), do(path)); err != nil {
				t.Fatal(err)
			}
			if _, err := transfer.Verify(t.Context(), path); err == nil {
				t.Error("nothing was noticed")
			} else {
				t.Log(err)
			}
			target := testsqldb.New(t, sqldb.Config{URL: testdb.EmptySQLite(t)})
			if _, err := transfer.Restore(t.Context(), path, target, t.TempDir(), false, nil); err == nil {
				t.Error("it was restored")
			}
		})
	}
	exec := func(query string) func(string) error {
		return func(path string) error { return execIn(t, path, query) }
	}
	damage("empty", func(path string) error { return os.Truncate(path, 0) })
	damage("cut off", func(path string) error { return os.Truncate(path, int64(len(whole)/2)) })
	damage("zeros", func(path string) error {
		return os.WriteFile(path, append(whole[:8192:8192], make([]byte, len(whole)-8192)...), 0o600)
	})
	damage("no database", func(path string) error { return os.WriteFile(path, []byte("a text that is no database"), 0o600) })
	damage("a row less", exec("DELETE FROM devices WHERE num = 3"))
	damage("a row more", exec("INSERT INTO playbooks (name, definition, changed) VALUES ('new', '{}', 0)"))
	damage("another value", exec("UPDATE tokens SET role = 'admin' WHERE id = '1'"))
	damage("a table less", exec("DROP TABLE playbooks"))
	damage("another file", exec("INSERT INTO backup_files (name, mode, data) VALUES ('devices.key', 384, 'x')"))
	damage("a newer schema", exec("INSERT INTO schema_version (version_id, is_applied) VALUES (9999, 1)"))
	damage("in use", func(path string) error { return os.WriteFile(path+"-wal", nil, 0o600) })
}

// The files of the data directory are kept and come back, for their owner only.
func TestBackupFiles(t *testing.T) {
	db := fleet(t, testdb.SQLite(t))
	dir, to, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "b.db")
	key := filepath.Join(dir, "devices.key")
	if err := os.WriteFile(key, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Make(t.Context(), db, file, transfer.Options{Dir: dir, Files: []string{"devices.key", "absent"}}); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(to, "devices.key")
	if err := os.WriteFile(other, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	restore := func(replace bool) error {
		target := testsqldb.New(t, sqldb.Config{URL: testdb.EmptySQLite(t)})
		_, err := transfer.Restore(t.Context(), file, target, to, replace, nil)
		return err
	}
	if err := restore(false); err == nil || !strings.Contains(err.Error(), other+" is there, and is another one") {
		t.Errorf("over another key: %v", err)
	}
	if err := restore(true); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(other)
	if string(got) != "secret" || err != nil {
		t.Errorf("the key is %q, %v", got, err)
	}
}

// A target that holds a fleet is given up only if that is asked for, and a failure leaves a file as it was.
func TestRestoreOverFleet(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run(kind.Name, func(t *testing.T) {
			file, _ := backup(t)
			url := kind.URL(t)
			old := testsqldb.Open(t, sqldb.Config{URL: url, Dir: t.TempDir()})
			was := old.Fence()
			restore := func(replace bool) error {
				_, err := transfer.Restore(t.Context(), file, testsqldb.New(t, sqldb.Config{URL: url, Dir: t.TempDir()}), t.TempDir(), replace, nil)
				return err
			}
			if err := restore(true); !errors.Is(err, sqldb.ErrLocked) {
				t.Fatalf("under a server: %v", err)
			}
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			if err := restore(false); !errors.Is(err, sqldb.ErrNotEmpty) || !strings.Contains(err.Error(), "--force") {
				t.Fatalf("over a fleet: %v", err)
			}
			if err := restore(true); err != nil {
				t.Fatal(err)
			}
			db := testsqldb.Open(t, sqldb.Config{URL: url, Dir: t.TempDir()})
			if db.Fence() <= was+100_000 {
				t.Errorf("term %d after %d", db.Fence(), was)
			}
		})
	}
}
