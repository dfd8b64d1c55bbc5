package transfer_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/sqldb/transfer"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

// A fleet goes from any database into a backup, and from there into another kind of database, as it was.
func TestBackupAndRestore(t *testing.T) {
	all := testdb.Databases()
	for i, from := range all {
		to := all[(i+1)%len(all)]
		t.Run(from.Name+" to "+to.Name, func(t *testing.T) {
			db := fleet(t, from.URL(t))
			file := filepath.Join(t.TempDir(), "backup.db")
			made, err := transfer.Make(t.Context(), db, file, transfer.Options{Program: "test"})
			if err != nil {
				t.Fatal(err)
			}
			if made.Fleet != idOf(t, db) || !made.Checked || made.Rows < 190 {
				t.Errorf("Make = %+v", made)
			}
			dir := t.TempDir()
			target := testsqldb.New(t, sqldb.Config{URL: to.Empty(t), Dir: dir})
			if _, err := transfer.Restore(t.Context(), file, target, dir, false, nil); err != nil {
				t.Fatal(err)
			}
			again := filepath.Join(t.TempDir(), "again.db")
			if _, err := transfer.Make(t.Context(), target, again, transfer.Options{}); err != nil {
				t.Fatal(err)
			}
			same(t, file, again)
			if err := target.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			if target.ID() != made.Fleet || target.Fence() < 100_000 {
				t.Errorf("the fleet is %s with term %d, want %s", target.ID(), target.Fence(), made.Fleet)
			}
		})
	}
}

// A restore that ends while the tables are made, and leaves some of them, is made good by the next.
func TestRestoreEndsBetweenTables(t *testing.T) {
	testenv.Check(t)
	file, _ := backup(t)
	url := testdb.EmptyPostgres(t)
	exec := func(query string) {
		t.Helper()
		db, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	restore := func() error {
		_, err := transfer.Restore(t.Context(), file, testsqldb.New(t, sqldb.Config{URL: url, Dir: t.TempDir()}), t.TempDir(), false, nil)
		return err
	}
	exec("CREATE VIEW playbooks AS SELECT 1") // the migrations fail at this name
	if err := restore(); err == nil || !strings.Contains(err.Error(), "playbooks") {
		t.Fatalf("where a table cannot be made: %v", err)
	}
	exec("DROP VIEW playbooks")
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if db := testsqldb.Open(t, sqldb.Config{URL: url, Dir: t.TempDir()}); db.Fence() < 100_000 {
		t.Errorf("the term is %d", db.Fence())
	}
}
