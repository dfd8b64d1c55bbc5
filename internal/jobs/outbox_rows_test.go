package jobs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
)

// application is a program that writes to the database by itself.
type application struct {
	*sql.DB

	tb   testing.TB
	name string // of the kind of database
}

// connect connects as somebody; as the owner of the database if user is empty.
func connect(tb testing.TB, database, raw, user, password string) *application {
	tb.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	if user != "" {
		u.User = url.UserPassword(user, password)
	}
	driver, name := "pgx", u.String()
	if database == "mariadb" {
		cfg := mysql.NewConfig()
		cfg.Net, cfg.Addr, cfg.DBName, cfg.User = "tcp", u.Host, strings.Trim(u.Path, "/"), u.User.Username()
		cfg.Passwd, _ = u.User.Password()
		driver, name = "mysql", cfg.FormatDSN()
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return &application{db, tb, database}
}

// run runs a statement without arguments.
func (a *application) run(query string) {
	a.tb.Helper()
	if _, err := a.ExecContext(a.tb.Context(), query); err != nil {
		a.tb.Fatalf("%s: %v", query, err)
	}
}

// add writes rows with an ordering key and bodies.
func (a *application) add(key string, bodies ...string) {
	a.tb.Helper()
	for _, body := range bodies {
		a.run(fmt.Sprintf("INSERT INTO holter_outbox (endpoint, body, ordering_key) VALUES ('ops', '%s', '%s')", body, key))
	}
}

// left returns the bodies of the rows that nobody has refused.
func (a *application) left() (bodies []string) {
	a.tb.Helper()
	rows, err := a.QueryContext(a.tb.Context(), "SELECT body FROM holter_outbox WHERE error IS NULL ORDER BY id")
	if err != nil {
		a.tb.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var body string
		if err := rows.Scan(&body); err != nil {
			a.tb.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	if err := rows.Err(); err != nil {
		a.tb.Fatal(err)
	}
	return bodies
}

// onServers runs a test on each kind of database that applications share.
func onServers(t *testing.T, test func(t *testing.T, r *rig, app *application, raw string)) {
	t.Helper()
	for _, db := range testdb.Databases()[1:] {
		t.Run("db="+db.Name, func(t *testing.T) {
			raw := db.URL(t)
			r := open(t, config{URL: raw})
			test(t, r, connect(t, db.Name, raw, "", ""), raw)
		})
	}
}

// asJob makes a job of a row.
func asJob(row *jobs.OutboxRow) (jobs.Spec, error) {
	return jobs.Spec{
		Lane: lane, RunAt: row.RunAt, Unique: row.Unique,
		Body: jobs.Body{Key: row.Key, URL: row.URL, Data: row.Body, Deadline: row.Deadline, Created: base},
	}, nil
}

// take takes rows until there are no more.
func take(t *testing.T, r *rig, specOf func(*jobs.OutboxRow) (jobs.Spec, error)) (taken int, refused []jobs.OutboxRow) {
	t.Helper()
	var scan jobs.RowScan
	for more := true; more; {
		got, err := r.jobs.TakeRows(t.Context(), &scan, nil, specOf)
		if err != nil {
			t.Fatal(err)
		}
		taken, refused, more = taken+got.Jobs, append(refused, got.Refused...), got.More
	}
	return taken, refused
}

// wantBodies checks the jobs that a claim returns.
func (q *queue) wantBodies(what string, want ...string) {
	q.t.Helper()
	var got []string
	for _, job := range q.claim(20_000).Jobs {
		got = append(got, string(job.Body.Data))
	}
	if !slices.Equal(got, want) {
		q.t.Errorf("%s: claimed %.300q, want %.300q", what, got, want)
	}
}

// Rows become jobs when their transaction is committed, in their order, with all that they say, and not at all if it is rolled back.
func TestTakeRows(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig, app *application, _ string) {
		t.Helper()
		ctx := t.Context()
		begin := func() *sql.Tx {
			tx, err := app.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO holter_outbox (url, body) VALUES ('http://a.example/%d', '%d')", i, i)); err != nil {
					t.Fatal(err)
				}
			}
			return tx
		}
		given, kept := begin(), begin()
		if n, _ := take(t, r, asJob); n != 0 {
			t.Errorf("%d rows of open transactions were taken", n)
		}
		if err := errors.Join(given.Rollback(), kept.Commit()); err != nil {
			t.Fatal(err)
		}
		app.run("INSERT INTO holter_outbox (queue, endpoint, body, ordering_key, idempotency_key, priority, run_at, deadline)" +
			" VALUES ('slow', 'ops', '{\"n\": \"ä\"}', 'k', 'once', 'high', '2031-02-03 04:05:06.789', '2032-01-01 00:00:00')")
		var last jobs.OutboxRow
		taken, refused := take(t, r, func(row *jobs.OutboxRow) (jobs.Spec, error) {
			last = *row
			return asJob(row)
		})
		if taken != 3 || len(refused) != 0 || len(app.left()) != 0 || r.jobs.Depths()[lane] != 3 {
			t.Errorf("%d taken, %d refused, left %q, depths %v, want 3, 0, none and 3", taken, len(refused), app.left(), r.jobs.Depths())
		}
		q := newQueue(t, r)
		q.wantBodies("committed", "0", "1")
		want := jobs.OutboxRow{Queue: "slow", Endpoint: "ops", Key: "k", Unique: "once", Priority: "high", Size: 11}
		got := last
		got.ID, got.Body, got.RunAt, got.Deadline, got.Created = 0, nil, time.Time{}, time.Time{}, time.Time{}
		if fmt.Sprint(got) != fmt.Sprint(want) || string(last.Body) != `{"n": "ä"}` {
			t.Errorf("read %+v, want %+v", last, want)
		}
		at := time.Date(2031, 2, 3, 4, 5, 6, 789e6, time.UTC)
		if !last.RunAt.Equal(at) || last.Deadline.Year() != 2032 || time.Since(last.Created).Abs() > time.Hour {
			t.Errorf("run at %v, deadline %v, created %v", last.RunAt, last.Deadline, last.Created)
		}
		app.run("INSERT INTO holter_outbox (body, idempotency_key) VALUES ('again', 'once')")
		if n, _ := take(t, r, asJob); n != 1 || r.jobs.Depths()[lane] != 3 {
			t.Errorf("a row with a known idempotency key: %d taken, depths %v, want 1 and still 3 jobs", n, r.jobs.Depths())
		}
	})
}

// A row that can be no job stays with the reason, is shown, and holds up no other. Repaired, it becomes a job.
func TestRefusedRows(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig, app *application, _ string) {
		t.Helper()
		looked := 0
		choose := func(row *jobs.OutboxRow) (jobs.Spec, error) {
			looked++
			switch {
			case strings.HasPrefix(string(row.Body), "bad"):
				return jobs.Spec{}, errors.New("no such thing\x00" + strings.Repeat("ä", 1000))
			case string(row.Body) == "later":
				return jobs.Spec{}, jobs.ErrLater
			}
			return asJob(row)
		}
		app.add("a", "bad 1", "good")
		app.add("b", "later")
		app.add("a", "bad 2")
		taken, refused := take(t, r, choose)
		if taken != 1 || len(refused) != 2 || refused[0].ID == 0 || !strings.HasPrefix(refused[0].Error, "no such thing") {
			t.Errorf("%d taken, refused %.200v", taken, refused)
		}
		q := newQueue(t, r)
		q.wantBodies("the good one", "good")
		if left := app.left(); !slices.Equal(left, []string{"later"}) {
			t.Errorf("left %q", left)
		}
		looked = 0
		if take(t, r, choose); looked != 1 {
			t.Errorf("looked at %d rows again, want the one that waits", looked)
		}
		shown, err := r.jobs.RefusedRows(t.Context(), 0, 10)
		if err != nil || len(shown) != 2 || shown[0].ID != refused[0].ID || shown[0].Error != refused[0].Error || shown[0].Body != nil || shown[0].Size != 5 {
			t.Fatalf("shown %.200v, %v", shown, err)
		}
		if shown, err = r.jobs.RefusedRows(t.Context(), shown[0].ID, 10); err != nil || len(shown) != 1 {
			t.Errorf("the page after the first: %d rows, %v", len(shown), err)
		}
		app.run(fmt.Sprintf("UPDATE holter_outbox SET error = NULL, body = 'mended' WHERE id = %d", refused[0].ID))
		if taken, refused = take(t, r, choose); taken != 1 || len(refused) != 0 {
			t.Errorf("mended: %d taken, %d refused", taken, len(refused))
		}
	})
}

// A connection that ends between the jobs and the commit leaves all rows; then each becomes one job.
func TestKilledWhileTaking(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig, app *application, _ string) {
		t.Helper()
		app.add("", "1", "2", "3")
		killed := false
		_, err := r.jobs.TakeRows(t.Context(), new(jobs.RowScan), nil, func(row *jobs.OutboxRow) (jobs.Spec, error) {
			if !killed {
				killed = true
				app.killWriters()
			}
			return asJob(row)
		})
		if err == nil || len(app.left()) != 3 {
			t.Fatalf("err %v, left %q, want an error and all rows", err, app.left())
		}
		if n, _ := take(t, r, asJob); n != 3 {
			t.Errorf("%d taken, want 3", n)
		}
		newQueue(t, r).wantBodies("once", "1", "2", "3")
	})
}

// killWriters ends the connections of others that are in a transaction.
func (a *application) killWriters() {
	a.tb.Helper()
	if a.name == "postgres" {
		a.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()" +
			" AND state = 'idle in transaction'")
		return
	}
	var id int64
	err := a.QueryRowContext(a.tb.Context(), "SELECT t.trx_mysql_thread_id FROM information_schema.innodb_trx t"+
		" JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()").Scan(&id)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.run(fmt.Sprint("KILL ", id))
}

// A row that another program has locked holds up neither the writer nor rows with other keys; those with its key follow it.
func TestLockedRows(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig, app *application, _ string) {
		t.Helper()
		app.add("a", "a1", "a2")
		app.add("b", "b1")
		app.add("", "c1")
		tx, err := app.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), "UPDATE holter_outbox SET body = 'a1 changed' WHERE id = 1"); err != nil {
			t.Fatal(err)
		}
		if n, _ := take(t, r, asJob); n != 2 {
			t.Errorf("%d taken beside a locked row, want 2", n)
		}
		q := newQueue(t, r)
		q.wantBodies("beside a locked row", "b1", "c1")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		take(t, r, asJob)
		q.wantBodies("then", "a1 changed", "a2")
	})
}

// Rows of a transaction that is not committed hold up nothing, and rows that are taken do not hold up that transaction.
func TestTakingBesideWriters(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig, app *application, _ string) {
		t.Helper()
		for n := 1; n <= 256; n *= 2 { // the database chooses another way for each
			want := 0
			for ; want < n; want++ {
				app.add("", "1")
			}
			tx, err := app.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			insert := func() {
				t.Helper()
				if _, err := tx.ExecContext(t.Context(), "INSERT INTO holter_outbox (body) VALUES ('2')"); err != nil {
					t.Fatal(err)
				}
			}
			insert()
			taken, _ := take(t, r, func(row *jobs.OutboxRow) (jobs.Spec, error) {
				if row.ID%64 == 0 {
					insert()
				}
				return asJob(row)
			})
			if taken != want {
				t.Errorf("%d rows were taken beside an open transaction, want %d", taken, want)
			}
			insert()
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			take(t, r, asJob)
			if left := app.left(); len(left) != 0 {
				t.Errorf("left %q", left)
			}
		}
	})
}

// A process that was overtaken takes nothing.
func TestFencedTaking(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig, app *application, _ string) {
		t.Helper()
		app.add("", "1")
		app.run("UPDATE meta SET fence = fence + 1")
		if _, err := r.jobs.TakeRows(t.Context(), new(jobs.RowScan), nil, asJob); !errors.Is(err, sqldb.ErrFenced) || len(app.left()) != 1 {
			t.Errorf("err %v, left %q, want %v and the row", err, app.left(), sqldb.ErrFenced)
		}
	})
}

// Many rows, and large ones, are taken in transactions of a bounded size, in order.
func TestManyRows(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig, app *application, _ string) {
		t.Helper()
		const n = 2000
		var values []string
		for i := range n {
			values = append(values, fmt.Sprintf("('ops', '%d', '%d')", i, i%7))
		}
		app.run("INSERT INTO holter_outbox (endpoint, body, ordering_key) VALUES " + strings.Join(values, ", "))
		taken, steps := 0, 0
		var scan jobs.RowScan
		for more := true; more; steps++ {
			got, err := r.jobs.TakeRows(t.Context(), &scan, []string{"another", jobs.DefaultQueue + "s"}, asJob)
			if err != nil || got.Jobs > 200 {
				t.Fatalf("%d taken at once, %v", got.Jobs, err)
			}
			taken, more = taken+got.Jobs, got.More
		}
		if taken != n || len(app.left()) != 0 {
			t.Errorf("%d taken, %d left", taken, len(app.left()))
		}
		want := make([]string, n)
		for i := range want {
			want[i] = strconv.Itoa(i)
		}
		newQueue(t, r).wantBodies("all", want...)

		for range 10 {
			app.run("INSERT INTO holter_outbox (body) VALUES (REPEAT('x', 1048576))")
		}
		app.run("INSERT INTO holter_outbox (body) VALUES (REPEAT('x', 1048577))")
		got, err := r.jobs.TakeRows(t.Context(), new(jobs.RowScan), nil, asJob)
		if err != nil || got.Jobs != 4 || !got.More {
			t.Errorf("of 10 MiB it took %d rows at once, more %v, %v, want 4", got.Jobs, got.More, err)
		}
		var large *jobs.OutboxRow
		take(t, r, func(row *jobs.OutboxRow) (jobs.Spec, error) {
			large = row
			return asJob(row)
		})
		if large.Body != nil || large.Size != jobs.MaxBody+1 {
			t.Errorf("a body of %d bytes was read, of %d", len(large.Body), large.Size)
		}
		app.run("INSERT INTO holter_outbox (queue, body) VALUES ('default', '1')")
		if got, err := r.jobs.TakeRows(t.Context(), new(jobs.RowScan), []string{jobs.DefaultQueue}, asJob); err != nil || got.Jobs != 0 {
			t.Errorf("of a queue that is left out: %d, %v", got.Jobs, err)
		}
	})
}

// Rows that have to wait hold up those with their name and key, and others only if they are very many.
func TestWaitingRows(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig, app *application, _ string) {
		t.Helper()
		var values []string
		for i := range 500 {
			values = append(values, fmt.Sprintf("('report', 'wait %d', '')", i))
		}
		for _, row := range []string{"'report', 'wait', 'a'", "'report', 'a1', 'a'", "'mail', 'a2', 'a'", "'report', 'b1', 'b'", "'mail', 'c1', ''"} {
			values = append(values, "("+row+")")
		}
		app.run("INSERT INTO holter_outbox (name, body, ordering_key) VALUES " + strings.Join(values, ", "))
		full := func(row *jobs.OutboxRow) (jobs.Spec, error) {
			if strings.HasPrefix(string(row.Body), "wait") {
				return jobs.Spec{}, jobs.ErrLater
			}
			return asJob(row)
		}
		if n, refused := take(t, r, full); n != 3 || len(refused) != 0 {
			t.Errorf("%d taken beside rows that wait, %d refused, want 3 and none", n, len(refused))
		}
		q := newQueue(t, r)
		q.wantBodies("beside rows that wait", "a2", "b1", "c1")

		for range 4 {
			app.run("INSERT INTO holter_outbox (name, body, ordering_key) VALUES " + strings.Join(values[:500], ", "))
		}
		app.add("", "far")
		if n, _ := take(t, r, full); n != 0 || len(app.left()) != 2503 {
			t.Errorf("%d taken behind more than 2,000 that wait, and %d left", n, len(app.left()))
		}
		if n, _ := take(t, r, asJob); n != 2503 {
			t.Errorf("%d taken when none has to wait, want 2,503", n)
		}
	})
}

// With the documented rights an application may add jobs, and nothing else.
func TestRights(t *testing.T) {
	const columns = "(name, queue, endpoint, url, body, ordering_key, idempotency_key, priority, run_at, deadline)"
	onServers(t, func(t *testing.T, r *rig, app *application, raw string) {
		t.Helper()
		var database string
		if err := r.Scan(t.Context(), map[string]string{"postgres": "SELECT current_database()", "mariadb": "SELECT DATABASE()"}[app.name], &database); err != nil {
			t.Fatal(err)
		}
		user := "app_" + database
		if app.name == "postgres" {
			app.run("CREATE ROLE " + user + " LOGIN PASSWORD 'secret'")
			app.run("GRANT INSERT " + columns + " ON holter_outbox TO " + user)
		} else {
			app.run("CREATE USER " + user + "@'127.0.0.1' IDENTIFIED BY 'secret'")
			app.run("GRANT INSERT " + columns + " ON holter_outbox TO " + user + "@'127.0.0.1'")
		}
		limited := connect(t, app.name, raw, user, "secret")
		limited.add("k", "1")
		if n, _ := take(t, r, asJob); n != 1 {
			t.Errorf("%d taken, want 1", n)
		}
		for _, query := range []string{
			"SELECT body FROM holter_outbox", "DELETE FROM holter_outbox", "UPDATE holter_outbox SET body = '2'", "SELECT * FROM jobs",
			"INSERT INTO holter_outbox (body, error) VALUES ('1', 'no')",
		} {
			if _, err := limited.ExecContext(t.Context(), query); err == nil {
				t.Errorf("%s: no error", query)
			}
		}
	})
}

// A database in a file has no such table; only PostgreSQL tells of new rows.
func TestListenRows(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			raw := db.URL(t)
			r := open(t, config{URL: raw})
			if has := r.jobs.HasOutbox(); has != (db.Name != "sqlite") {
				t.Errorf("HasOutbox = %v", has)
			}
			if refused, err := r.jobs.RefusedRows(t.Context(), 0, 10); err != nil || len(refused) != 0 {
				t.Errorf("refused %v, %v", refused, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			heard := 0
			err := r.jobs.ListenRows(ctx, func() {
				if heard++; heard == 1 {
					connect(t, db.Name, raw, "", "").add("", "1")
					return
				}
				cancel()
			})
			switch {
			case db.Name != "postgres" && !errors.Is(err, sqldb.ErrNoNotices):
				t.Errorf("err = %v, want %v", err, sqldb.ErrNoNotices)
			case db.Name == "postgres" && (heard != 2 || !errors.Is(err, context.Canceled)):
				t.Errorf("heard %d times, %v, want 2 and that it was canceled", heard, err)
			}
		})
	}
}
