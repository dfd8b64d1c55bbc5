package delivery

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
)

const (
	claimSize = 500    // jobs that are claimed, and settled, at a time
	claimTurn = 20_000 // jobs that the store and the bare database claim and settle in turn
)

// claim claims and settles jobs, in turns with the store and with statements of its own, on the same
// table of the same database.
func (r *rig) claim(ctx context.Context, n int) (found result, err error) {
	db, err := sqldb.OpenShared(ctx, r.config)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	lane, err := r.route(ctx, 1, true)
	if err != nil {
		return found, err
	}
	raw := &bare{db: db, made: bareFrom}
	for turn := 1; found.Events < n; turn++ {
		size := min(claimTurn, n-found.Events)
		both := []func() error{
			func() error { return found.Bare.repeat(r, size, func() (int, error) { return raw.settle(ctx) }) },
			func() error { return found.repeat(r, size, func() (int, error) { return r.settle(ctx, lane) }) },
		}
		err := errors.Join(r.fill(ctx, size, turn), raw.fill(ctx, size), both[turn%2](), both[(turn+1)%2]())
		if err != nil {
			return found, err
		}
		found.Events += size
	}
	return found, nil
}

// repeat calls settle until it has settled n jobs, and adds what that took.
func (u *usage) repeat(r *rig, n int, settle func() (int, error)) error {
	return u.add(r, func() error {
		for done := 0; done < n; {
			settled, err := settle()
			if err != nil {
				return err
			}
			if done += settled; settled == 0 {
				return fmt.Errorf("%d jobs could be claimed, want %d", done, n)
			}
		}
		return nil
	})
}

// settle claims jobs with the store, and acks them.
func (r *rig) settle(ctx context.Context, lane jobs.Lane) (int, error) {
	got, err := r.jobs.Claim(ctx, lane, claimSize, time.Now(), time.Minute)
	if err != nil {
		return 0, err
	}
	acks := make([]jobs.Ack, len(got.Jobs))
	for i := range acks {
		acks[i].Job = got.Jobs[i]
	}
	_, err = r.jobs.Ack(ctx, acks, time.Now())
	return len(acks), err
}

// bare is the least that a claim and its settlement cost, with the same library and settings.
type bare struct {
	db     *sqldb.DB
	made   int64 // the last row that was inserted
	cursor int64 // the last one that was claimed
	claims int64 // negative: no number of the store
}

// The rows of the bare database, far from the store's.
const (
	bareFrom = 1 << 40
	bareLane = 2<<32 | 1
)

// fill inserts rows as the store makes them.
func (b *bare) fill(ctx context.Context, n int) error {
	type row struct {
		bun.BaseModel `bun:"table:jobs"`

		ID    int64 `bun:"id,pk"`
		Lane  int64 `bun:"lane"`
		Event int64 `bun:"event"`
		Key   int64 `bun:"okey"`
	}
	return b.db.WriteShared(ctx, "fill", func(ctx context.Context, tx sqldb.Tx) error {
		for end := b.made + int64(n); b.made < end; {
			rows := make([]row, min(claimSize, end-b.made))
			for i := range rows {
				b.made++
				rows[i] = row{ID: b.made, Lane: bareLane, Event: b.made, Key: rand.Int64()}
			}
			if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// settle takes jobs in one transaction and removes them in another one.
func (b *bare) settle(ctx context.Context) (int, error) {
	b.claims--
	var ids []int64
	err := b.db.WriteShared(ctx, "claim", func(ctx context.Context, tx sqldb.Tx) (err error) {
		if ids, err = b.next(ctx, tx); err != nil || len(ids) == 0 {
			return err
		}
		_, err = tx.NewRaw("UPDATE jobs SET claim = ?, due = ? WHERE id IN (?) AND claim = 0",
			b.claims, time.Now().Add(time.Minute).UnixNano(), bun.List(ids)).Exec(ctx)
		return err
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	b.cursor = ids[len(ids)-1]
	return len(ids), b.db.WriteShared(ctx, "settle", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.NewRaw("DELETE FROM jobs WHERE id IN (?) AND claim = ?", bun.List(ids), b.claims).Exec(ctx)
		return err
	})
}

// next reads the next rows.
func (b *bare) next(ctx context.Context, tx sqldb.Tx) (ids []int64, err error) {
	if tx.Dialect().Name() == dialect.PG {
		// Without it the server would read and sort all rows, as it does not know how many there are.
		if _, err := tx.ExecContext(ctx, "SET LOCAL enable_sort = off"); err != nil {
			return nil, err
		}
	}
	err = sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
		var id, event, key, claim, attempts int64
		err := rows.Scan(&id, &event, &key, &claim, &attempts)
		ids = append(ids, id)
		return err
	}, "SELECT id, event, okey, claim, attempts FROM jobs WHERE lane = ? AND due IS NULL AND id > ? ORDER BY id LIMIT ?",
		int64(bareLane), b.cursor, claimSize)
	return ids, err
}
