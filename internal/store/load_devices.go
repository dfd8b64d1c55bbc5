package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// restoreDevices gives the registry all devices, several ranges of numbers at a time. It returns the
// offset of each one's latest event by number, how many there are, and the rows that cannot be read.
func (s *Store) restoreDevices(
	ctx context.Context, r *liveness.Registry, heard *heartbeats, habits habitPages, rows []deviceRow,
) (heads []uint64, n int, aside []*asideRow, err error) {
	var top int64
	err = s.db.ReadRow(ctx, loading, []any{&top}, "SELECT COALESCE(MAX(num), 0) FROM devices WHERE num <= ?", maxNumber)
	if err != nil {
		return nil, 0, nil, err
	}
	top = max(top, 0)
	if aside, err = s.findStrays(ctx); err != nil {
		return nil, 0, nil, err
	}
	heads = make([]uint64, top+1)
	names := s.names.all()
	var count, next atomic.Int64
	var mu sync.Mutex // guards aside
	g, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), 4) {
		g.Go(func() error {
			l := loader{store: s, registry: r, heard: heard, habits: habits, rows: rows, heads: heads, names: names, policies: make(map[string]liveness.Policy)}
			for {
				from := next.Add(loadSpan) - loadSpan
				if from > top {
					return nil
				}
				n, damaged, err := l.load(ctx, from, min(from+loadSpan, top+1))
				count.Add(int64(n))
				if err != nil {
					return err
				}
				mu.Lock()
				aside = append(aside, damaged...)
				mu.Unlock()
			}
		})
	}
	err = g.Wait()
	return heads, int(count.Load()), aside, err
}

// loader restores devices, one range of numbers after the other.
type loader struct {
	store    *Store
	registry *liveness.Registry
	heard    *heartbeats
	habits   habitPages
	rows     []deviceRow // by number, what is known of them; nil if that has to be read
	heads    []uint64    // each loader writes other elements
	names    map[int64]string
	policies map[string]liveness.Policy // a fleet has few
}

// load restores the devices of a range of numbers. It returns how many there are, and the rows that
// cannot be read.
func (l *loader) load(ctx context.Context, from, to int64) (n int, aside []*asideRow, err error) {
	if l.rows != nil {
		if n, err = l.restoreKnown(from, to); err == nil || errors.Is(err, liveness.ErrFull) {
			return n, nil, err
		}
	}
	var row deviceRow
	dest := row.dest()
	err = l.store.db.Read(ctx, loading, func(ctx context.Context, q sqldb.Reader) error {
		aside = nil
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			if err := rows.Scan(dest...); err != nil {
				row, err := newAside(rows, err)
				aside = append(aside, row)
				return err
			}
			if l.heads[row.ints[0]] != 0 { // restored before the connection was lost
				return nil
			}
			err := l.restore(&row)
			if err != nil && !errors.Is(err, liveness.ErrFull) {
				row, err := newAside(rows, err)
				aside = append(aside, row)
				return err
			}
			n += sqldb.Bool(err == nil)
			return err
		}, rowColumnsOfDevices+"d.num >= ? AND d.num < ?", from, to)
	})
	return n, aside, err
}

// restoreKnown restores the devices of a range of numbers from what is known of them, up to the first
// that cannot be restored.
func (l *loader) restoreKnown(from, to int64) (n int, err error) {
	for num := from; num < min(to, int64(len(l.rows))) && err == nil; num++ {
		if row := &l.rows[num]; row.id != "" {
			err = l.restore(row)
			n += sqldb.Bool(err == nil)
		}
	}
	return n, err
}

// restore restores the device of a row. Errors: what is wrong with the row; liveness.ErrFull.
func (l *loader) restore(row *deviceRow) error {
	rec, err := l.record(row)
	if err != nil {
		return err
	}
	err = l.registry.Keeper().Restore(rec)
	switch {
	case errors.Is(err, liveness.ErrFull):
		return fmt.Errorf("%w: the database has more devices than this program may hold; raise max_devices", err)
	case err != nil:
		return err
	}
	l.heads[rec.Num] = uint64(row.ints[10])
	return nil
}

// record makes a record of a row.
func (l *loader) record(row *deviceRow) (rec keep.Record, err error) {
	ints := &row.ints
	state, ok := l.store.decoder.states[ints[1]]
	reason, is := l.store.decoder.reasons[ints[2]]
	if !ok || !is {
		return rec, fmt.Errorf("state %d, reason %d", ints[1], ints[2])
	}
	rec = keep.Record{
		ID: row.id, Num: uint32(ints[0]), State: state, Reason: reason, Source: l.names[ints[3]],
		Last: time.Duration(ints[4]), Until: time.Duration(ints[5]), Since: sqldb.Time(ints[6]), Seq: uint64(ints[7]), Epoch: uint64(ints[8]),
		Flapping: ints[9]&deviceFlapping != 0, Maintenance: ints[9]&deviceMaintenance != 0, Window: ints[9]&deviceWindow != 0,
		Unverified: ints[9]&deviceUnverified != 0, Quota: l.names[ints[11]], Learned: time.Duration(ints[12]), Started: sqldb.Time(ints[13]), Seen: sqldb.Time(ints[14]),
		JudgedBy: time.Duration(ints[15]),
	}
	rec.Habit = l.habits.of(rec.Num, row.id)
	switch head, last := ints[10], l.store.last.Load(); {
	case rec.Last < 0:
		return rec, fmt.Errorf("it was heard at a listening time of %v", rec.Last)
	case ints[7] < 0: // an epoch may be negative: it has all 64 bits
		return rec, fmt.Errorf("seq %d", ints[7])
	case head <= 0 || uint64(head) > last: // 0 is a device without a row
		return rec, fmt.Errorf("its latest event is %d of %d", head, last)
	}
	if rec.Source != "" {
		rec.Heard, rec.HeardBy = l.heard.last(rec.Num)
	}
	if rec.Announced, err = l.policy(row.announced); err != nil {
		return rec, err
	}
	if rec.Own, err = l.policy(row.own); err != nil {
		return rec, err
	}
	if len(row.changes) > 0 {
		rec.Changes, err = unpackChanges(row.changes)
	}
	return rec, err
}

// maxPolicies is how many policies a loader remembers.
const maxPolicies = 4096

func (l *loader) policy(text string) (liveness.Policy, error) {
	if text == "" {
		return liveness.Policy{}, nil
	}
	p, ok := l.policies[text]
	if ok {
		return p, nil
	}
	p, err := parsePolicy(text)
	if err == nil && len(l.policies) < maxPolicies {
		l.policies[text] = p
	}
	return p, err
}
