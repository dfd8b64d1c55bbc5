package transfer_test

import (
	"path/filepath"
	"testing"

	"github.com/holter-iot/holter/internal/testdb"
	"github.com/holter-iot/holter/internal/testsqldb"
	"github.com/holter-iot/holter/sqldb"
	"github.com/holter-iot/holter/sqldb/transfer"
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
			target := testsqldb.New(t, sqldb.Config{URL: to.URL(t), Dir: dir})
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
