package sqldb

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Pooler is what stands before a PostgreSQL server: PgBouncer or its like, or nothing.
//
// What this package does needs no session: the lease and the fence are rows, and what is set is set for a
// transaction. It does need transactions. The driver prepares statements for a session, unless the
// database URL says otherwise with default_query_exec_mode.
type Pooler struct {
	Found      bool // connections end at it, and it makes its own to the server
	Shared     bool // it has no session for each connection: the next transaction may run in another one
	Autocommit bool // it takes no transactions, as PgBouncer does in its statement mode
	Clashes    bool // the statements that the driver prepares get lost in it, or meet those of others
}

// survey asks over connections of its own, with a protocol that works through all poolers.
func (b *postgresDB) survey(ctx context.Context) (s Survey, err error) {
	cfg := b.connector()
	one, err := pgx.ConnectConfig(ctx, &cfg)
	if err != nil {
		return s, err
	}
	defer hangUp(ctx, one)
	asked := time.Now()
	var micros int64
	err = one.QueryRow(ctx, "SELECT "+b.clock(), pgx.QueryExecModeSimpleProtocol).Scan(&micros)
	if err == nil {
		s.Clock = offsetOf(time.UnixMicro(micros), asked, time.Now())
	}
	replication, unread := replicationFrom(ctx, one)
	if unread == nil {
		s.Replication = &replication
	}
	pooler, unknown := b.pooler(ctx, one)
	if unknown == nil {
		s.Pooler = &pooler
	}
	return s, errors.Join(err, unread, unknown)
}

// hangUp closes a connection over which nothing was written.
func hangUp(ctx context.Context, conn *pgx.Conn) { _ = conn.Close(ctx) }

// replicationFrom returns what a server says of its replicas. Backups and subscribers of logical
// replication are none. A user without the rights of pg_read_all_stats sees how many there are, and nothing
// else.
func replicationFrom(ctx context.Context, conn *pgx.Conn) (r Replication, err error) {
	known := 0
	err = conn.QueryRow(ctx, `SELECT current_setting('synchronous_commit'), COUNT(*), COUNT(sync_state),
		COUNT(*) FILTER (WHERE sync_state IN ('sync', 'quorum') AND current_setting('synchronous_commit') NOT IN ('off', 'local'))
		FROM pg_stat_replication r WHERE state IS DISTINCT FROM 'backup'
		AND NOT EXISTS (SELECT 1 FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')`,
		pgx.QueryExecModeSimpleProtocol).Scan(&r.Commit, &r.Replicas, &known, &r.Waited)
	r.Hidden = known < r.Replicas
	return r, err
}

// pooler finds out what one's connection ends at.
func (b *postgresDB) pooler(ctx context.Context, one *pgx.Conn) (p Pooler, err error) {
	first, err := sessionOf(ctx, one)
	if err != nil || first == one.PgConn().PID() { // a pooler makes up the number that it says when one connects
		return p, err
	}
	p.Found = true
	if p.Autocommit, err = refusesTransactions(ctx, one); err != nil || p.Autocommit {
		return p, err
	}
	cfg := b.connector()
	two, err := pgx.ConnectConfig(ctx, &cfg)
	if err != nil {
		return p, err
	}
	defer hangUp(ctx, two)
	if p.Shared, err = shared(ctx, one, two); err != nil || !p.Shared {
		return p, err
	}
	switch cfg.DefaultQueryExecMode {
	case pgx.QueryExecModeCacheStatement:
		p.Clashes, err = clash(ctx, one, two)
	case pgx.QueryExecModeDescribeExec: // a statement takes two turns, which may go to two sessions
		p.Clashes = true
	default:
	}
	return p, err
}

// sessionOf returns the id of the server's process that answers.
func sessionOf(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}

func refusesTransactions(ctx context.Context, conn *pgx.Conn) (bool, error) {
	tx, err := conn.Begin(ctx)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == codeProtocol {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, tx.Rollback(ctx)
}

// shared reports whether two connections have sessions in common, or one has several. A pooler that gives
// out the session that was used last, or each in turn, shows it at once.
func shared(ctx context.Context, one, two *pgx.Conn) (bool, error) {
	var seen [4]uint32
	for i, conn := range []*pgx.Conn{one, two, two, one} {
		pid, err := sessionOf(ctx, conn)
		if err != nil {
			return false, err
		}
		seen[i] = pid
	}
	return seen[0] == seen[1] || seen[1] != seen[2] || seen[0] != seen[3], nil
}

// clash reports whether two connections cannot each prepare a statement of the same name, or lose it.
func clash(ctx context.Context, one, two *pgx.Conn) (bool, error) {
	name := "holter_" + rand.Text()
	for _, conn := range []*pgx.Conn{one, two} {
		defer func() { _ = conn.PgConn().Deallocate(ctx, name) }() // it ends with its session at the latest
		if _, err := conn.PgConn().Prepare(ctx, name, "SELECT 1", nil); err != nil {
			return isClash(err)
		}
	}
	return isClash(one.PgConn().ExecPrepared(ctx, name, nil, nil, nil).Read().Err)
}

// isClash reports whether an error is about a prepared statement that is another's or is not there, and
// returns all other errors.
func isClash(err error) (bool, error) {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && (pg.Code == codePrepared || pg.Code == codeUnprepared) {
		return true, nil
	}
	return false, err
}

// Codes of errors of PostgreSQL.
const (
	codeProtocol   = "08P01" // a pooler refuses something
	codePrepared   = "42P05" // a statement of that name is prepared already
	codeUnprepared = "26000" // no statement of that name is prepared
)
