package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/terminal"
)

// clockApart is how far the clock of the database may be from that of this machine.
const clockApart = time.Second

// checkServer checks what a fleet needs of the server of a database. What cannot be asked is no problem of
// its own; why the database does not open was said before.
func (d *doctor) checkServer(ctx context.Context, cfg config.Config, opens bool) {
	s, err := d.surveyOf(ctx, cfg)
	if s.Clock != nil {
		d.judgeOffset(*s.Clock)
	}
	if s.Pooler != nil {
		d.judgePooler(*s.Pooler)
	}
	if s.Replication != nil {
		d.judgeReplication(*s.Replication)
	}
	if err != nil && opens {
		d.ok("database server", "it cannot be asked for everything: "+err.Error())
	}
}

func survey(ctx context.Context, cfg config.Config) (sqldb.Survey, error) {
	db, err := sqldb.New(server.DatabaseConfig(cfg))
	if err != nil {
		return sqldb.Survey{}, err
	}
	return db.Survey(ctx)
}

func (d *doctor) judgeOffset(o sqldb.Offset) {
	const fine = 10 * time.Microsecond
	side := "ahead of"
	if o.Ahead < 0 {
		side = "behind"
	}
	apart := o.Ahead.Abs()
	text := fmt.Sprintf("the database's clock is %v %s this machine's, give or take %v", apart.Round(fine), side, o.Within.Round(fine))
	d.judge("database clock", text, problem{
		apart-o.Within > clockApart, LevelWarn, text,
		"Run chrony or another NTP client on both. Leases and schedules go by the database's clock, events and checkpoints by that of the server " +
			"which writes them: a takeover between machines whose clocks differ dates silence wrongly.",
	})
}

func (d *doctor) judgePooler(p sqldb.Pooler) {
	const notice = "Let it notice soon that a server of the fleet is cut off, else the transaction of a lost judge holds up the next one: in PgBouncer, " +
		"tcp_keepidle = 10, tcp_keepintvl = 5, tcp_keepcnt = 3."
	const free = "connections end at a pooler in transaction mode"
	d.judge("pooler", "none: connections end at PostgreSQL itself",
		problem{
			p.Autocommit, LevelFail, "connections end at a pooler in statement mode: it refuses transactions, and everything is written in one",
			"Set pool_mode = transaction or session for this database, or let the database URL lead to PostgreSQL itself.",
		},
		problem{
			p.Clashes, LevelFail, free + ", in which prepared statements get lost",
			"Add default_query_exec_mode=exec to the database URL, or let the pooler keep prepared statements (PgBouncer 1.21 or later: max_prepared_statements), " +
				"or set pool_mode = session.",
		},
		problem{p.Shared, LevelOK, free + ": nothing that holter does needs a session", notice},
		problem{p.Found, LevelOK, "connections end at a pooler in session mode", notice})
}

// comesBack is what to know of a database that loses commits.
const comesBack = " Events that are still in the judge's memory come back after such a loss; settings and tokens do not."

func (d *doctor) judgeReplication(r sqldb.Replication) {
	help := "Turn semi-synchronous replication on: rpl_semi_sync_master_enabled here, rpl_semi_sync_slave_enabled at the replicas, which connect again."
	unhide := "" // MySQL does not tell anybody
	if r.Commit != "" {
		unhide = "Let the user of the database URL see it: GRANT pg_read_all_stats."
		help = "Name standbys in synchronous_standby_names, with synchronous_commit = on or remote_apply."
	}
	replicas := terminal.Plural(r.Replicas, "replica", "replicas")
	d.judge("replication", fmt.Sprintf("a commit waits for %d of %s", r.Waited, replicas),
		problem{
			r.Commit == "off", LevelWarn, "synchronous_commit is off: a crash or a failover of the database loses what was answered",
			"Set synchronous_commit = on, for the database or its user." + comesBack,
		},
		problem{r.Hidden, LevelOK, "whether a commit waits for a replica cannot be seen", unhide},
		problem{r.Replicas == 0, LevelOK, "no replica is attached", ""},
		problem{r.Waited == 0, LevelWarn, replicas + " attached, and a commit waits for none: a failover of the database can lose what was answered", help + comesBack})
}
