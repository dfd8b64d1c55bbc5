package chaos

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/sqldb"
)

// versions are the two programs between which a cluster is upgraded and put back.
type versions struct {
	now    string // the path of the one that nodes and ears are started with from now on
	oneWay bool   // the version before does not know the tables of this one
}

// newVersions chooses the program that all begin with: the version before, if there are to be upgrades.
func (r *trial) newVersions() {
	r.versions.now = r.config.Program
	if slices.Contains(r.config.possible(false), Upgrade) {
		r.versions.now = r.config.Previous
	}
}

// upgrade restarts nodes and ears with the other version: the nodes at once, the judge last, and one ear after the other while the
// next faults go on. So the judge has ears of both versions for a while, and each version has the other one as its judge.
func (r *trial) upgrade(ctx context.Context) error {
	r.ears.work.Wait()
	if err := r.changeVersion(ctx); err != nil {
		return err
	}
	r.say("  to %s", r.versions.now)
	r.upgradeEars(ctx)
	return r.roll(ctx, Upgrade)
}

// changeVersion chooses the other version, if there is a way back.
func (r *trial) changeVersion(ctx context.Context) error {
	if r.versions.now == r.config.Program {
		if !r.versions.oneWay {
			r.versions.now = r.config.Previous
		}
		return nil
	}
	r.versions.now = r.config.Program
	at, err := r.databaseURL()
	if err != nil {
		return err
	}
	db, err := sqldb.OpenShared(ctx, sqldb.Config{URL: at})
	if errors.Is(err, sqldb.ErrLocked) {
		r.versions.oneWay = true
		r.note("the version before does not know the tables of this one, so there is one upgrade, and no way back")
		return nil
	}
	if err != nil {
		return err
	}
	return db.Close()
}

// upgradeEars begins to end all ears in order, one after the other, and to start them with the present version.
func (r *trial) upgradeEars(ctx context.Context) {
	path, left := r.versions.now, slices.Clone(r.ears.all)
	r.ears.work.Go(func() {
		for len(left) > 0 && time.Now().Before(r.until) && run.Wait(ctx, pollEvery) == nil {
			if e := r.ears.take(left); e != nil {
				left = slices.DeleteFunc(left, func(other *ear) bool { return other == e })
				e.path = path
				r.hurt(ctx, e, &Fault{Kind: EarTerm})
			}
		}
	})
}
