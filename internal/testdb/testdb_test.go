package testdb_test

import (
	"database/sql"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/testdb"
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
