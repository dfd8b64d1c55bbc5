package delivery

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
)

// bare is a database without the store: the least that a claim and its settlement cost, on the same table, with the same library and the
// same settings of the connection.
type bare struct {
	db     *bun.DB
	hint   string // a statement before a claim; empty for none
	last   int64  // row that was made
	cursor int64  // the last one that was claimed
	claims int64
}

// bareFrom is where the rows of the bare database begin, far from the store's.
const bareFrom = 1 << 40

// bareRow is a row of jobs as the store makes it.
type bareRow struct {
	bun.BaseModel `bun:"table:jobs"`

	ID    int64 `bun:"id,pk"`
	Lane  int64 `bun:"lane"`
	Event int64 `bun:"event"`
	Key   int64 `bun:"okey"`
}

// bareLane is their lane, another one than the store's.
const bareLane = 2<<32 | 1

// fill inserts n rows.
func (b *bare) fill(ctx context.Context, n int) error {
	return b.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		for made := 0; made < n; made += claimSize {
			rows := make([]bareRow, min(claimSize, n-made))
			for i := range rows {
				b.last = max(b.last, bareFrom) + 1
				rows[i] = bareRow{ID: b.last, Lane: bareLane, Event: b.last, Key: rand.Int64()}
			}
			if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func openBare(url string) (*bare, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		db, err := sql.Open("sqlite", "file:"+rest+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"+
			"&_pragma=wal_autocheckpoint(8000)&_pragma=cache_size(-65536)")
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		return &bare{db: bun.NewDB(db, sqlitedialect.New())}, nil
	case "postgres":
		db, err := sql.Open("pgx", url)
		if err != nil {
			return nil, err
		}
		// Without it the server would read and sort all rows, as it does not know how many there are.
		return &bare{db: bun.NewDB(db, pgdialect.New()), hint: "SET LOCAL enable_sort = off"}, nil
	}
	login, place, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "@")
	host, name, _ := strings.Cut(place, "/")
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, _ = strings.Cut(login, ":")
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", host, name
	cfg.InterpolateParams, cfg.ClientFoundRows = true, true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return &bare{db: bun.NewDB(sql.OpenDB(connector), mysqldialect.New())}, nil
}

func (b *bare) close() error { return b.db.Close() }

// claimAndSettle takes rows in one transaction and removes them in another one, and says how many.
func (b *bare) claimAndSettle(ctx context.Context, n int) (int, error) {
	b.claims--
	var ids []int64
	err := b.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) (err error) {
		if b.hint != "" {
			if _, err := tx.ExecContext(ctx, b.hint); err != nil {
				return err
			}
		}
		if ids, err = b.next(ctx, tx, n); err != nil || len(ids) == 0 {
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
	return len(ids), b.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewRaw("DELETE FROM jobs WHERE id IN (?) AND claim = ?", bun.List(ids), b.claims).Exec(ctx)
		return err
	})
}

func (b *bare) next(ctx context.Context, tx bun.Tx, n int) (ids []int64, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT id, event, okey, claim, attempts FROM jobs WHERE lane = ? AND due IS NULL AND id > ? ORDER BY id LIMIT ?",
		int64(bareLane), b.cursor, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, event, key, claim, attempts int64
		if err := rows.Scan(&id, &event, &key, &claim, &attempts); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
