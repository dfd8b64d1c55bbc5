package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"
)

// surveyTime is how long a server has to answer all questions of a survey.
const surveyTime = 5 * time.Second

// Survey is what a fleet should know of the server below it. A part that could not be had is nil.
type Survey struct {
	Clock       *Offset
	Replication *Replication
	Pooler      *Pooler // nil for MariaDB, which is not asked for it
}

// Offset is how far the server's clock is from that of this process.
type Offset struct {
	Ahead  time.Duration // of the server's; negative if it is behind
	Within time.Duration // by how much Ahead may be wrong: half of the round trip
}

// offsetOf returns the offset of a clock that showed at, between two looks at the clock of this process.
func offsetOf(at, asked, answered time.Time) *Offset {
	half := answered.Sub(asked) / 2
	return &Offset{Ahead: at.Sub(asked.Add(half)).Round(time.Microsecond), Within: half}
}

// Replication is what becomes of a commit when a replica takes the place of the server.
type Replication struct {
	Replicas int  // attached now, or nodes of a Galera cluster beside this one
	Waited   int  // of them, those that a commit waits for: one at least has it before it is answered
	Hidden   bool // this user may not see them, or the server does not tell
	// Commit is PostgreSQL's synchronous_commit, with "off" a crash alone loses commits that were
	// answered; "" for MariaDB.
	Commit string
}

// Survey asks the server. It needs neither Open nor a schema, and changes nothing. All of it takes 5 s at
// most. Errors: errors.ErrUnsupported for a file, and those of the database; parts may be there all the
// same.
func (db *DB) Survey(ctx context.Context) (s Survey, err error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	switch b := db.backend.(type) {
	case *postgresDB:
		s, err = b.survey(ctx)
	case *mysqlDB:
		s, err = b.survey(ctx)
	default:
		err = errors.ErrUnsupported
	}
	return s, db.wrap("survey", err)
}

func (b *mysqlDB) survey(ctx context.Context) (s Survey, err error) {
	pool := b.leasePool()
	defer func() { _ = pool.Close() }() // nothing was written over it
	if err := pool.PingContext(ctx); err != nil {
		return s, err
	}
	asked := time.Now()
	var micros int64
	if err = pool.QueryRowContext(ctx, "SELECT "+b.clock()).Scan(&micros); err == nil {
		s.Clock = offsetOf(time.UnixMicro(micros), asked, time.Now())
	}
	status, unread := b.status(ctx, pool)
	if unread == nil {
		r := replicationOf(status)
		s.Replication = &r
	}
	return s, errors.Join(err, unread)
}

// status returns what the server says of its replicas. Everybody may ask.
func (b *mysqlDB) status(ctx context.Context, pool *sql.DB) (map[string]string, error) {
	status := map[string]string{}
	return status, Each(ctx, pool, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		status[name] = value
		return err
	}, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_connected', 'Rpl_semi_sync_master_status', 'Rpl_semi_sync_master_clients', 'wsrep_cluster_size')")
}

// replicationOf returns what a status means. MySQL has no Slaves_connected. While semi-synchronous replication
// is off, or has been given up after rpl_semi_sync_master_timeout, its status is OFF.
func replicationOf(status map[string]string) (r Replication) {
	number := func(name string) int {
		n, _ := strconv.Atoi(status[name]) // 0 if it has none
		return n
	}
	if others := number("wsrep_cluster_size") - 1; others > 0 {
		return Replication{Replicas: others, Waited: others}
	}
	_, told := status["Slaves_connected"]
	r = Replication{Replicas: number("Slaves_connected"), Hidden: !told}
	if status["Rpl_semi_sync_master_status"] == "ON" {
		r.Waited = min(number("Rpl_semi_sync_master_clients"), r.Replicas)
	}
	return r
}
