package sqldb_test

import (
	"testing"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
)

// Whichever answer of the server is lost, a transaction that succeeds is committed, and one that fails is
// not.
func TestLostAnswers(t *testing.T) {
	testenv.Check(t)
	for _, kind := range testdb.Databases()[1:] {
		t.Run("db="+kind.Name, func(t *testing.T) {
			direct := kind.URL(t)
			line, url := testdb.NewLine(t, direct)
			db := open(t, url)
			failed, want := 0, 0
			for n := range line.EachLost() {
				err := write(t, db)
				line.Heal()
				if want++; err != nil {
					failed, want = failed+1, want-1
				}
				var got int
				if err := db.Scan(t.Context(), "SELECT COUNT(*) FROM names", &got); err != nil || got != want {
					t.Fatalf("request %d: Write = %v, and there are %d rows, %v; want %d", n, err, got, err, want)
				}
			}
			if failed == 0 || want < 2 { // at least the last, and the one whose commit got no answer
				t.Errorf("%d transactions failed, %d succeeded", failed, want)
			}
		})
	}
}

// The answer to who asks for an outcome may be lost, too.
func TestNoCommitIsAnswered(t *testing.T) {
	testenv.Check(t)
	for _, kind := range testdb.Databases()[1:] {
		t.Run("db="+kind.Name, func(t *testing.T) {
			line, url := testdb.NewLine(t, kind.URL(t))
			db := open(t, url)
			line.Commits(testdb.AnswerLost)
			if err := write(t, db); err != nil {
				t.Errorf("what was committed failed: %v", err)
			}
			line.Commits(testdb.RequestLost)
			if err := write(t, db); err == nil {
				t.Error("what was not committed succeeded")
			}
			line.Heal()
			if err := write(t, db); err != nil {
				t.Error(err)
			}
		})
	}
}
