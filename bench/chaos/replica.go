package chaos

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"

	"github.com/holter-iot/holter/internal/test/testdb"
)

// replica is a PostgreSQL server that follows the one that is in use.
type replica struct {
	server *testdb.Server
	link   *link // from it to the other one
}

// newReplica starts a replica, if the database is to be promoted.
func (r *trial) newReplica(ctx context.Context) (err error) {
	promoted := func(kind FaultKind) bool { return kind == Promote || kind == PromoteLoss }
	if !slices.ContainsFunc(r.config.possible(false), promoted) {
		return nil
	}
	if r.replica.link, err = linkTo(ctx, loopback, r.database.Address()); err != nil {
		return err
	}
	r.replica.server, err = testdb.NewStandby(r.replica.link.address()) //nolint:contextcheck // it has a limit of its own
	return err
}

func (r *replica) close() (err error) {
	if r.server != nil {
		r.server.Close()
	}
	if r.link != nil {
		err = r.link.close()
	}
	return err
}

// promote kills the database, and promotes its replica: all nodes reach that one by way of their links, and another replica is made.
// Either commits wait for the replica, as the documentation wants it, or it is cut off before, so that commits are lost. Nothing is
// excused then: the judge remembers what it had committed.
func (r *trial) promote(ctx context.Context, f *Fault) error {
	if err := r.database.AwaitStandby(f.Kind == Promote); err != nil { //nolint:contextcheck // it has a limit of its own
		return err
	}
	if f.Kind == PromoteLoss {
		r.replica.link.set(refused)
	}
	err := r.wait(ctx, f.Length)
	if err == nil {
		err = r.failover(ctx, f.Kind)
	}
	if err != nil {
		return err
	}
	r.replica.link.lead(r.database.Address())
	r.replica.link.set(whole)
	r.replica.server, err = testdb.NewStandby(r.replica.link.address()) //nolint:contextcheck // it has a limit of its own
	return err
}

// failover replaces the database by its replica.
func (r *trial) failover(ctx context.Context, kind FaultKind) error {
	defer r.trouble(kind)()
	had, err := r.lastOffset(ctx)
	if err != nil {
		return err
	}
	r.database.Kill()
	if err := r.replica.server.Promote(); err != nil { //nolint:contextcheck // it has a limit of its own
		return err
	}
	r.database.Close()
	r.database, r.replica.server = r.replica.server, nil
	has, err := r.lastOffset(ctx)
	if err != nil {
		return err
	}
	if has < had {
		r.note("a replica was promoted that had events up to %d, when there were %d", has, had)
	}
	for _, s := range r.nodes {
		s.link.lead(r.database.Address())
	}
	return nil
}

// databaseURL is where the database is now: a replica that was promoted has another address.
func (r *trial) databaseURL() (string, error) {
	u, err := url.Parse(r.url)
	if err != nil {
		return "", err
	}
	u.Host = r.database.Address()
	return u.String(), nil
}

// lastOffset reads from the database what the latest event is.
func (r *trial) lastOffset(ctx context.Context) (last uint64, err error) {
	at, err := r.databaseURL()
	if err != nil {
		return 0, err
	}
	db, err := sql.Open("pgx", at)
	if err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT last_offset FROM meta WHERE id = 1").Scan(&last)
	return last, errors.Join(err, db.Close())
}
