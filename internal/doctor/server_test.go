package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestDoctorServer(t *testing.T) {
	clock := func(ahead, within time.Duration) sqldb.Survey {
		return sqldb.Survey{Clock: &sqldb.Offset{Ahead: ahead, Within: within}}
	}
	pooler := func(p sqldb.Pooler) sqldb.Survey { return sqldb.Survey{Pooler: &p} }
	replication := func(r sqldb.Replication) sqldb.Survey { return sqldb.Survey{Replication: &r} }
	for _, tt := range []struct {
		name       string
		survey     sqldb.Survey
		want, text string
	}{
		{"no difference", clock(2*time.Millisecond, time.Millisecond), "ok database clock", "is 2ms ahead of this machine's, give or take 1ms"},
		{"ahead", clock(1500*time.Millisecond, 10*time.Millisecond), "warn database clock", "1.5s ahead of"},
		{"behind", clock(-2*time.Hour, 10*time.Millisecond), "warn database clock", "2h0m0s behind this"},
		{"nobody knows", clock(1500*time.Millisecond, time.Second), "ok database clock", "give or take 1s"},
		{"no pooler", pooler(sqldb.Pooler{}), "ok pooler", "none"},
		{"session mode", pooler(sqldb.Pooler{Found: true}), "ok pooler", "in session mode Let it notice"},
		{"transaction mode", pooler(sqldb.Pooler{Found: true, Shared: true}), "ok pooler", "needs a session Let it notice"},
		{"prepared statements", pooler(sqldb.Pooler{Found: true, Shared: true, Clashes: true}), "fail pooler", "default_query_exec_mode=exec"},
		{"statement mode", pooler(sqldb.Pooler{Found: true, Autocommit: true}), "fail pooler", "refuses transactions"},
		{"alone", replication(sqldb.Replication{Commit: "on"}), "ok replication", "no replica is attached"},
		{"alone, without replication", replication(sqldb.Replication{Commit: "local"}), "ok replication", "no replica is attached"},
		{"commits that wait for nothing", replication(sqldb.Replication{Commit: "off"}), "warn replication", "Set synchronous_commit = on"},
		{"hidden", replication(sqldb.Replication{Replicas: 1, Hidden: true, Commit: "on"}), "ok replication", "GRANT pg_read_all_stats"},
		{"hidden by MySQL", replication(sqldb.Replication{Hidden: true}), "ok replication", "cannot be seen"},
		{"asynchronous", replication(sqldb.Replication{Replicas: 2, Commit: "on"}), "warn replication", "Name standbys in synchronous_standby_names"},
		{"asynchronous MariaDB", replication(sqldb.Replication{Replicas: 1}), "warn replication", "rpl_semi_sync_master_enabled"},
		{"synchronous", replication(sqldb.Replication{Replicas: 2, Waited: 1, Commit: "on"}), "ok replication", "waits for 1 of 2 replicas"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &doctor{surveyOf: func(context.Context, config.Config) (sqldb.Survey, error) { return tt.survey, nil }}
			d.checkServer(t.Context(), config.Config{}, true)
			d.wants(t, tt.want)
			if text := d.findings[0].Text + " " + d.findings[0].Help; !strings.Contains(text, tt.text) {
				t.Errorf("%q is missing from %q", tt.text, text)
			}
		})
	}
}

// What could be had is judged; what could not is said, unless the database did not open.
func TestDoctorServerErrors(t *testing.T) {
	part := sqldb.Survey{Pooler: &sqldb.Pooler{}}
	d := &doctor{surveyOf: func(context.Context, config.Config) (sqldb.Survey, error) { return part, errors.New("no such view") }}
	d.checkServer(t.Context(), config.Config{}, false)
	d.wants(t, "ok pooler")
	d.checkServer(t.Context(), config.Config{}, true)
	d.wants(t, "ok pooler", "ok pooler", "ok database server")
	if text := d.findings[2].Text; !strings.Contains(text, "no such view") {
		t.Error(text)
	}
}

// The databases of the tests have the clock of this machine, and PostgreSQL does not wait for the disk.
func TestDoctorRealServer(t *testing.T) {
	testenv.Check(t)
	for _, tt := range []struct {
		name string
		url  func(testing.TB) string
		want []string
	}{
		{"postgres", testdb.Postgres, []string{"ok database", "ok database clock", "ok pooler", "warn replication"}},
		{"mariadb", testdb.MariaDB, []string{"ok database", "ok database clock", "ok replication"}},
		{"a wrong password", func(tb testing.TB) string {
			tb.Helper()
			return testdb.URLWithPassword(testdb.MariaDB(tb), "wrong")
		}, []string{"fail database"}},
		{"pooler", func(tb testing.TB) string {
			tb.Helper()
			return testdb.PgBouncer(tb, "statement", "ignore_startup_parameters = tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count")
		}, []string{"fail database", "ok database clock", "fail pooler", "warn replication"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &doctor{machine: fakeMachine(t, nil), storeOf: probeStore, surveyOf: survey}
			d.checkStore(t.Context(), config.Config{Database: config.NewSecret(tt.url(t))})
			for i := range d.findings { // a busy machine may be slow
				if f := &d.findings[i]; strings.Contains(f.Text, "but only after") {
					f.Level = LevelOK
				}
			}
			d.wants(t, tt.want...)
			if text := fmt.Sprint(d.findings); strings.Contains(text, "secret") {
				t.Error(text)
			}
		})
	}
}
