package sqldb_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
)

// ignored lets PgBouncer take connections of holter.
const ignored = "ignore_startup_parameters = tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count"

func survey(tb testing.TB, url string) sqldb.Survey {
	tb.Helper()
	s, err := newDB(tb, url).Survey(tb.Context())
	if err != nil {
		tb.Fatalf("Survey: %v", err)
	}
	return s
}

// In the tests, the database's clock is that of this machine.
func TestSurvey(t *testing.T) {
	testenv.Check(t)
	for _, db := range []testdb.Database{{Name: "postgres", URL: testdb.Postgres}, {Name: "mariadb", URL: testdb.MariaDB}} {
		t.Run("db="+db.Name, func(t *testing.T) {
			s := survey(t, db.URL(t))
			if s.Clock == nil || s.Clock.Ahead.Abs() > s.Clock.Within+2*time.Millisecond {
				t.Errorf("Clock = %+v, want no difference", s.Clock)
			}
			if r := s.Replication; r == nil || r.Replicas != 0 || r.Waited != 0 || r.Hidden {
				t.Errorf("Replication = %+v, want no replica", r)
			}
			if db.Name == "postgres" && (s.Pooler == nil || *s.Pooler != sqldb.Pooler{}) || db.Name == "mariadb" && s.Pooler != nil {
				t.Errorf("Pooler = %+v, want none", s.Pooler)
			}
		})
	}
}

func TestSurveyErrors(t *testing.T) {
	testenv.Check(t)
	if _, err := newDB(t, testdb.SQLite(t)).Survey(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a file: %v", err)
	}
	for name, url := range map[string]func(testing.TB) string{"postgres": testdb.Postgres, "mariadb": testdb.MariaDB} {
		s, err := newDB(t, testdb.URLWithPassword(url(t), "wrong")).Survey(t.Context())
		if s != (sqldb.Survey{}) || !strings.HasPrefix(sqldb.Explain(err), "authentication failed") {
			t.Errorf("%s with a wrong password: %+v, %v", name, s, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if s, err := newDB(t, url(t)).Survey(ended); s != (sqldb.Survey{}) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s after the end: %+v, %v", name, s, err)
		}
	}
}

// What a survey says of a pooler decides whether a server works behind it.
func TestSurveyPooler(t *testing.T) {
	testenv.Check(t)
	for _, c := range []struct {
		mode, option string
		want         sqldb.Pooler
	}{
		{"session", "", sqldb.Pooler{Found: true}},
		{"transaction", "", sqldb.Pooler{Found: true, Shared: true, Clashes: true}},
		{"transaction", "&default_query_exec_mode=exec", sqldb.Pooler{Found: true, Shared: true}},
		{"transaction", "&default_query_exec_mode=describe_exec", sqldb.Pooler{Found: true, Shared: true, Clashes: true}},
		{"statement", "&default_query_exec_mode=exec", sqldb.Pooler{Found: true, Autocommit: true}},
	} {
		t.Run(c.mode+c.option, func(t *testing.T) {
			url := testdb.PgBouncer(t, c.mode, ignored) + c.option
			for range 2 { // the first leaves sessions behind, over which the second goes
				if s := survey(t, url); s.Pooler == nil || *s.Pooler != c.want || s.Clock == nil || s.Replication == nil {
					t.Errorf("Survey = %+v, with a pooler %+v, want %+v", s, s.Pooler, c.want)
				}
			}
			if c.want.Autocommit || c.want.Clashes {
				return
			}
			if err := write(t, open(t, url)); err != nil {
				t.Errorf("Write: %v", err)
			}
		})
	}
}

// The error of a database behind a pooler says what to set.
func TestPoolerCauses(t *testing.T) {
	testenv.Check(t)
	_, err := sqldb.OpenShared(t.Context(), sqldb.Config{URL: testdb.PgBouncer(t, "session")})
	if !strings.Contains(sqldb.Explain(err), "ignore_startup_parameters") {
		t.Errorf("a pooler that ignores nothing: %v", err)
	}
	url := testdb.PgBouncer(t, "transaction", ignored)
	for err = nil; err == nil; { // the next one prepares statements that an earlier one has left in a session
		var db *sqldb.DB
		if db, err = sqldb.OpenShared(t.Context(), sqldb.Config{URL: url}); err == nil {
			err = db.Close()
		}
	}
	if !strings.Contains(sqldb.Explain(err), "default_query_exec_mode=exec") {
		t.Errorf("a pooler that loses prepared statements: %v", err)
	}
}

func TestSurveyReplicas(t *testing.T) {
	testenv.Check(t)
	server := testdb.NewPostgres(t, true)
	url := server.Database(t)
	db := open(t, url)
	run := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if err := db.RunAlone(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	await := func(url string, want sqldb.Replication) {
		t.Helper()
		var got sqldb.Replication
		for end := time.After(30 * time.Second); ; {
			if got = *survey(t, url).Replication; got == want {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-end:
				t.Fatalf("Replication = %+v, want %+v", got, want)
			}
		}
	}
	run("CREATE ROLE low LOGIN PASSWORD 'secret'")
	await(url, sqldb.Replication{Commit: "on"})
	server.Replica(t)
	await(url, sqldb.Replication{Replicas: 1, Commit: "on"})
	await(strings.Replace(url, "//holter:", "//low:", 1), sqldb.Replication{Replicas: 1, Hidden: true, Commit: "on"})
	run("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	await(url, sqldb.Replication{Replicas: 1, Waited: 1, Commit: "on"})
	for _, commit := range []string{"local", "off"} {
		await(url+"&synchronous_commit="+commit, sqldb.Replication{Replicas: 1, Commit: commit})
	}
	run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	await(url, sqldb.Replication{Replicas: 1, Commit: "on"}) // no commit waits for it when it ends
}

func TestReplicationOf(t *testing.T) {
	status := func(replicas, semi, clients, nodes string) map[string]string {
		return map[string]string{
			"Slaves_connected": replicas, "Rpl_semi_sync_master_status": semi, "Rpl_semi_sync_master_clients": clients, "wsrep_cluster_size": nodes,
		}
	}
	for _, c := range []struct {
		name   string
		status map[string]string
		want   sqldb.Replication
	}{
		{"alone", status("0", "OFF", "0", "0"), sqldb.Replication{}},
		{"alone, ready for replicas", status("0", "ON", "0", "0"), sqldb.Replication{}},
		{"asynchronous", status("2", "OFF", "0", "0"), sqldb.Replication{Replicas: 2}},
		{"semi-synchronous", status("2", "ON", "1", "0"), sqldb.Replication{Replicas: 2, Waited: 1}},
		{"semi-synchronous here only", status("2", "ON", "0", "0"), sqldb.Replication{Replicas: 2}},
		{"given up", status("2", "OFF", "1", "0"), sqldb.Replication{Replicas: 2}},
		{"Galera", status("0", "OFF", "0", "3"), sqldb.Replication{Replicas: 2, Waited: 2}},
		{"Galera with a replica", status("1", "OFF", "0", "3"), sqldb.Replication{Replicas: 2, Waited: 2}},
		{"the last node, with a replica", status("1", "OFF", "0", "1"), sqldb.Replication{Replicas: 1}},
		{"MySQL", map[string]string{}, sqldb.Replication{Hidden: true}},
	} {
		if got := sqldb.ReplicationOf(c.status); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
