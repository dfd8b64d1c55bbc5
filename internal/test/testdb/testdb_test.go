package testdb_test

import (
	"database/sql"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/test/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Main(m)) }

// dial opens a database by the URL that testdb gives.
func dial(t *testing.T, url string) *sql.DB {
	t.Helper()
	driver, name := "pgx", url
	if rest, ok := strings.CutPrefix(url, "mysql://"); ok {
		login, place, _ := strings.Cut(rest, "@")
		host, database, _ := strings.Cut(place, "/")
		driver, name = "mysql", login+"@tcp("+host+")/"+database
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return db
}

func TestSharedServers(t *testing.T) {
	for name, database := range map[string]func(testing.TB) string{"postgres": testdb.Postgres, "mariadb": testdb.MariaDB} {
		t.Run(name, func(t *testing.T) {
			one, two := dial(t, database(t)), dial(t, database(t))
			if _, err := one.ExecContext(t.Context(), "CREATE TABLE things (a INT)"); err != nil {
				t.Fatal(err)
			}
			if _, err := two.ExecContext(t.Context(), "CREATE TABLE things (a INT)"); err != nil {
				t.Errorf("the second database is not empty: %v", err)
			}
		})
	}
}

func TestOwnServers(t *testing.T) {
	for name, server := range map[string]func(testing.TB, bool) *testdb.Server{"postgres": testdb.NewPostgres, "mariadb": testdb.NewMariaDB} {
		t.Run(name, func(t *testing.T) {
			s := server(t, true)
			db := dial(t, s.Database(t))
			if _, err := db.ExecContext(t.Context(), "CREATE TABLE things (a INT)"); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			if err := db.PingContext(t.Context()); err == nil {
				t.Error("a server that was killed answers")
			}
			s.Start(t)
			if _, err := db.ExecContext(t.Context(), "INSERT INTO things VALUES (1)"); err != nil {
				t.Errorf("what was committed before the server was killed is gone: %v", err)
			}
			s.Pause(t)
			s.Continue(t)
			if err := db.PingContext(t.Context()); err != nil {
				t.Errorf("after a pause: %v", err)
			}
		})
	}
}

// A standby that is promoted has what was committed before it was cut off, or all if commits wait for it.
func TestStandby(t *testing.T) {
	for name, wait := range map[string]bool{"commits wait": true, "commits do not wait": false} {
		t.Run(name, func(t *testing.T) {
			primary := testdb.NewPostgres(t, true)
			url := primary.Database(t)
			db := dial(t, url)
			run := func(db *sql.DB, statement string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			run(db, "CREATE TABLE things (a INT)")
			standby, err := testdb.NewStandby(primary.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer standby.Close()
			if err := primary.AwaitStandby(wait); err != nil {
				t.Fatal(err)
			}
			run(db, "INSERT INTO things VALUES (1)")
			if !wait {
				if err := primary.AwaitStandby(false); err != nil {
					t.Fatal(err)
				}
			}
			primary.Kill()
			if err := standby.Promote(); err != nil {
				t.Fatal(err)
			}
			promoted := dial(t, strings.Replace(url, primary.Address(), standby.Address(), 1))
			run(promoted, "INSERT INTO things VALUES (2)")
			var n int
			if err := promoted.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM things").Scan(&n); err != nil || n != 2 {
				t.Errorf("%d rows, %v; want 2", n, err)
			}
			if err := standby.Promote(); err == nil {
				t.Error("a primary is promoted")
			}
		})
	}
	if s, err := testdb.NewStandby("127.0.0.1:1"); err == nil {
		s.Close()
		t.Error("a standby of nothing was started")
	}
}
