package delivery_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
)

// application returns a connection of another program to the database of a rig.
func (r *rig) application() *sql.DB {
	r.tb.Helper()
	driver, name := "pgx", r.url
	if strings.HasPrefix(r.url, "mysql:") {
		u, err := url.Parse(r.url)
		r.check(err)
		cfg := mysql.NewConfig()
		cfg.Net, cfg.Addr, cfg.DBName, cfg.User = "tcp", u.Host, strings.Trim(u.Path, "/"), u.User.Username()
		cfg.Passwd, _ = u.User.Password()
		driver, name = "mysql", cfg.FormatDSN()
	}
	db, err := sql.Open(driver, name)
	r.check(err)
	r.tb.Cleanup(func() { _ = db.Close() })
	return db
}

// run runs a statement of an application.
func (r *rig) run(app *sql.DB, query string) {
	r.tb.Helper()
	if _, err := app.ExecContext(r.tb.Context(), query); err != nil {
		r.tb.Fatalf("%.200s: %v", query, err)
	}
}

// eachServer runs a test on each kind of database that applications share.
func eachServer(t *testing.T, cfg delivery.Config, test func(t *testing.T, r *rig, app *sql.DB)) {
	t.Helper()
	for _, db := range testdb.Databases()[1:] {
		t.Run("db="+db.Name, func(t *testing.T) {
			r := newRigOn(t, db.URL(t), cfg)
			test(t, r, r.application())
		})
	}
}

// What an application commits is delivered, in order by key. What cannot be a job is told once and counted.
func TestOutbox(t *testing.T) {
	var log lockedBuffer
	eachServer(t, delivery.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, r *rig, app *sql.DB) {
		t.Helper()
		log.reset()
		rc := newReceiver(t, nil)
		r.endpoint("ops", "webhook", rc.URL, "")
		tx, err := app.BeginTx(t.Context(), nil)
		r.check(err)
		for i := range 20 {
			_, err := tx.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO holter_outbox (endpoint, body, ordering_key) VALUES ('ops', '%d', 'k')", i))
			r.check(err)
		}
		r.check(tx.Commit())
		r.run(app, "INSERT INTO holter_outbox (url, body) VALUES ('"+rc.URL+"/own', '\"own\"')")
		r.until("all are delivered", func() bool { return len(rc.got()) == 21 })
		next := 0
		for _, q := range rc.got() {
			if q.path == "/own" {
				continue
			}
			if q.body != strconv.Itoa(next) {
				t.Errorf("got %s, want %d", q.body, next)
			}
			next++
		}
		rows := []struct{ insert, why string }{
			{"(endpoint, body) VALUES ('nowhere', '1')", `there is no endpoint "nowhere"`},
			{"(endpoint) VALUES ('ops')", "there is no body"},
			{"(endpoint, body) VALUES ('ops', 'no JSON')", "the body is not JSON"},
			{"(body) VALUES ('1')", "a URL or the name of an endpoint"},
			{"(endpoint, queue, body) VALUES ('ops', 'none', '1')", `there is no queue "none"`},
			{"(endpoint, body, ordering_key) VALUES ('ops', '1', '" + strings.Repeat("k", 201) + "')", "ordering key is too long"},
			{"(endpoint, body) VALUES ('ops', REPEAT('1', 1048577))", "the body has 1048577 bytes"},
			{"(endpoint, body, priority) VALUES ('ops', '1', 'urgent')", `"urgent" is no priority; want high, normal or low`},
			{"(endpoint, body, deadline) VALUES ('ops', '1', '1980-01-01 00:00:00')", "the deadline"},
		}
		for _, row := range rows {
			r.run(app, "INSERT INTO holter_outbox "+row.insert)
		}
		r.run(app, "INSERT INTO holter_outbox (endpoint, body, priority) VALUES ('ops', '20', 'low')")
		r.until("the last is delivered", func() bool { return len(rc.got()) == 22 })
		refused, err := r.engine.Jobs().RefusedRows(t.Context(), 0, 100)
		r.check(err)
		if len(refused) != len(rows) {
			t.Fatalf("%d rows were refused, want %d", len(refused), len(rows))
		}
		for i, row := range rows {
			if !strings.Contains(refused[i].Error, row.why) {
				t.Errorf("%.80s: refused for %q, want %q", row.insert, refused[i].Error, row.why)
			}
		}
		told := strings.Count(log.String(), "rows of holter_outbox cannot be jobs")
		if st := r.engine.Stats().Outbox; st.Refused != uint64(len(refused)) || told == 0 || told > len(refused) {
			t.Errorf("stats %+v, told %d times, refused %d", st, told, len(refused))
		}
	})
}

// Rows of a full queue wait in the table, and hold up no others.
func TestOutboxOfFullQueue(t *testing.T) {
	eachServer(t, delivery.Config{}, func(t *testing.T, r *rig, app *sql.DB) {
		t.Helper()
		rc := newReceiver(t, nil)
		r.endpoint("ops", "webhook", rc.URL, "")
		slow := jobs.NewQueue("slow")
		slow.MaxJobs, slow.Paused = 3, true
		r.check(r.engine.PutQueue(t.Context(), slow))
		for i := range 10 {
			r.run(app, fmt.Sprintf("INSERT INTO holter_outbox (queue, endpoint, body, ordering_key) VALUES ('slow', 'ops', '%d', 'k')", i))
		}
		r.run(app, "INSERT INTO holter_outbox (endpoint, body) VALUES ('ops', '\"other\"')")
		r.until("the other is delivered", func() bool { return len(rc.got()) == 1 })
		r.until("it is counted", func() bool { return r.engine.Stats().Outbox.Taken >= 4 }) // after it is committed, and so perhaps delivered
		if st := r.engine.Stats().Outbox; st.Taken != 4 || st.Refused != 0 {
			t.Errorf("stats %+v, want 4 taken", st)
		}
		r.check(r.engine.PauseQueue(t.Context(), "slow", false))
		r.until("all are delivered", func() bool { return len(rc.got()) == 11 })
		for i, q := range rc.got()[1:] {
			if q.body != strconv.Itoa(i) {
				t.Errorf("got %s, want %d", q.body, i)
			}
		}
	})
}

// Each row becomes one job while the server that makes jobs of them changes again and again.
func TestOutboxOfNodes(t *testing.T) {
	const rows, nodes = 800, 4
	eachServer(t, delivery.Config{}, func(t *testing.T, r *rig, app *sql.DB) {
		t.Helper()
		rc := newReceiver(t, nil)
		r.endpoint("ops", "webhook", rc.URL, "")
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			for i := range rows / 10 {
				var values []string
				for k := range 10 {
					values = append(values, fmt.Sprintf("('ops', '%d', '%d')", 10*i+k, k))
				}
				if _, err := app.ExecContext(t.Context(), "INSERT INTO holter_outbox (endpoint, body, ordering_key) VALUES "+strings.Join(values, ", ")); err != nil {
					t.Errorf("insert: %v", err)
					return
				}
			}
		})
		for i := range nodes {
			r.until("a node takes some", func() bool { return r.engine.Stats().Outbox.Taken >= rows/(2*nodes) || len(rc.got()) >= rows })
			r.end()
			r.cfg.Node = fmt.Sprint("node-", i+2)
			r.start()
		}
		writing.Wait()
		r.until("all are delivered", func() bool {
			var left int
			r.check(app.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM holter_outbox").Scan(&left))
			return left == 0 && len(r.engine.Jobs().Depths()) == 0
		})
		bodies := make(map[string]string) // of jobs
		latest := make(map[int]int)       // by key
		for _, q := range rc.got() {
			id, n := q.header.Get("Webhook-Id"), 0
			if _, again := bodies[id]; again { // an answer was lost
				continue
			}
			bodies[id] = q.body
			if _, err := fmt.Sscan(q.body, &n); err != nil {
				t.Fatal(err)
			}
			if last, ok := latest[n%10]; ok && n < last {
				t.Errorf("%d came after %d", n, last)
			}
			latest[n%10] = n
		}
		if len(bodies) != rows {
			t.Errorf("%d jobs, want %d", len(bodies), rows)
		}
	})
}

// While the database fails, and after it, nothing is lost.
func TestOutboxOfRestartedServer(t *testing.T) {
	testenv.Check(t)
	server := testdb.NewPostgres(t, true)
	rc := newReceiver(t, nil)
	r := newRigOn(t, server.Database(t), delivery.Config{})
	r.endpoint("ops", "webhook", rc.URL, "")
	app := r.application()
	r.run(app, "INSERT INTO holter_outbox (endpoint, body) VALUES ('ops', '1')")
	r.until("the first is delivered", func() bool { return len(rc.got()) == 1 })
	server.Kill()
	server.Start(t)
	r.until("the database takes the second", func() bool {
		_, err := app.ExecContext(t.Context(), "INSERT INTO holter_outbox (endpoint, body) VALUES ('ops', '2')")
		return err == nil
	})
	r.until("the second is delivered", func() bool { return len(rc.got()) == 2 })
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedBuffer) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}
