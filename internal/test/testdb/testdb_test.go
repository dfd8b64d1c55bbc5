package testdb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testsqldb"
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

// A database with tables is what the migrations make of an empty one, and each is another.
func TestDatabases(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run(kind.Name, func(t *testing.T) {
			migrated := kind.Empty(t)
			open := func(url string) *sqldb.DB {
				db, err := sqldb.OpenShared(t.Context(), sqldb.Config{URL: url})
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
			one, two := open(kind.URL(t)), testsqldb.Open(t, sqldb.Config{URL: kind.URL(t)})
			if got, want := describe(t, one, kind.Name), describe(t, open(migrated), kind.Name); got != want {
				t.Errorf("a copy has\n%s\nwant\n%s", got, want)
			}
			if fence := two.Fence(); fence != 1 {
				t.Errorf("the first fence is %d, want 1", fence)
			}
			if third := testsqldb.Open(t, sqldb.Config{URL: kind.URL(t)}); third.ID() == two.ID() {
				t.Errorf("two databases have the identity %s", two.ID())
			}
		})
	}
}

// describe returns how the tables and views of a database are made, and how many rows they have.
func describe(t *testing.T, db *sqldb.DB, kind string) string {
	t.Helper()
	list := map[string]string{
		"sqlite":   "SELECT name, COALESCE(sql, '') FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY 1",
		"postgres": "SELECT table_name, string_agg(CONCAT(column_name, column_default, is_nullable, data_type), ', ' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_schema = 'public' GROUP BY 1 ORDER BY 1",
		"mariadb":  "SELECT table_name, '' FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
	}[kind]
	var text strings.Builder
	err := db.Read(t.Context(), "describe", func(ctx context.Context, q sqldb.Reader) error {
		var tables []struct{ Name, How string }
		rows, err := q.QueryContext(ctx, list)
		if err != nil {
			return err
		}
		for rows.Next() {
			var name, how string
			if err := rows.Scan(&name, &how); err != nil {
				return err
			}
			tables = append(tables, struct{ Name, How string }{name, how})
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		for _, table := range tables {
			var count int
			if err := q.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table.Name).Scan(&count); err != nil {
				return err
			}
			if kind == "mariadb" {
				to := []any{new(string), &table.How, new(string), new(string)}
				if err := q.QueryRowContext(ctx, "SHOW CREATE TABLE "+table.Name).Scan(to[:2]...); err != nil {
					if err := q.QueryRowContext(ctx, "SHOW CREATE TABLE "+table.Name).Scan(to...); err != nil { // a view
						return err
					}
				}
			}
			fmt.Fprintf(&text, "%s: %d rows, %s\n", table.Name, count, table.How)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestOwnServers(t *testing.T) {
	testenv.Check(t)
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
	testenv.Check(t)
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
