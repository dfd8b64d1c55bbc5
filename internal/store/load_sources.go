package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// eachRow calls take for each row of a query, with the values of its n columns, damaged or not. It
// calls begin before the first one, and again if the query has to be repeated.
func (s *Store) eachRow(ctx context.Context, n int, begin func(), take func(values []any), query string) error {
	return s.db.Read(ctx, loading, func(ctx context.Context, q sqldb.Reader) error {
		begin()
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			values, err := scanAny(rows, n)
			if err == nil {
				take(values)
			}
			return err
		}, query)
	})
}

// restoreSources gives the registry its sources, as they were recalled, or blank if that failed. It
// returns the names of the sources, and an error for each row that could not be read as a whole.
func (s *Store) restoreSources(
	ctx context.Context, r *liveness.Registry, recalled *keep.Recollection, blank bool,
) (known map[string]bool, damaged []error, err error) {
	var records []keep.SourceRecord
	var bad map[string]bool // the names in damaged rows
	err = s.eachRow(ctx, 9, func() { records, damaged, bad = nil, nil, make(map[string]bool) }, func(values []any) {
		rec, err := sourceOf(values)
		if err != nil {
			damaged = append(damaged, err)
			bad[rec.Name] = true
		}
		if rec.Name != "" {
			records = append(records, rec)
		}
	}, "SELECT name, seq, listened, at, deaf, deaf_total, missed, blank, turns FROM sources ORDER BY name")
	if err != nil {
		return nil, nil, err
	}
	known = make(map[string]bool)
	for _, rec := range records {
		if bad[rec.Name] {
			if err := s.lastSeq(ctx, rec.Name, &rec.Seq, liveness.SourceDeaf, liveness.SourceHeard); err != nil {
				return nil, nil, err
			}
		}
		if rec.Blank = blank; recalled != nil {
			recalled.Source(&rec)
		}
		if err := r.Keeper().RestoreSource(rec); err != nil {
			return nil, nil, err
		}
		known[rec.Name] = true
	}
	return known, damaged, nil
}

// restoreGroups gives the registry the outages of its groups. It returns an error for each row that
// could not be read as a whole.
func (s *Store) restoreGroups(ctx context.Context, r *liveness.Registry) (damaged []error, err error) {
	var records []keep.GroupRecord
	err = s.eachRow(ctx, 4, func() { records, damaged = nil, nil }, func(values []any) {
		name, _ := values[0].(string)
		var err error
		seq, outage, from := numberOf(values[1], &err), numberOf(values[2], &err), numberOf(values[3], &err)
		if err != nil {
			damaged = append(damaged, fmt.Errorf("the row of group %q: %w", name, err))
		}
		records = append(records, keep.GroupRecord{Name: name, Seq: uint64(seq), Outage: outage != 0, From: time.Unix(0, from)})
	}, "SELECT name, seq, outage, began FROM outages")
	for i := range records {
		if err == nil {
			err = s.lastSeq(ctx, records[i].Name, &records[i].Seq, liveness.GroupOutageStarted, liveness.GroupOutageEnded)
			r.Keeper().RestoreGroup(records[i])
		}
	}
	return damaged, err
}

// restoreForgotten gives the registry the numbers of the latest events of forgotten devices. It
// returns an error for each row that could not be read.
func (s *Store) restoreForgotten(ctx context.Context, r *liveness.Registry) (damaged []error, err error) {
	err = s.eachRow(ctx, 2, func() { damaged = nil }, func(values []any) {
		id, _ := values[0].(string)
		var err error
		seq := numberOf(values[1], &err)
		if err == nil && seq > math.MaxInt64/2 {
			err = fmt.Errorf("the number of its last event is %d", seq)
		}
		if err != nil {
			damaged = append(damaged, fmt.Errorf("the row of the forgotten device %q: %w", id, err))
			return
		}
		r.Keeper().RestoreForgotten(id, uint64(seq))
	}, "SELECT id, seq FROM forgotten")
	return damaged, err
}

// lastSeq sets seq to the number of the latest event of a source or a group, if its row has none. Its cost
// is that of all events.
func (s *Store) lastSeq(ctx context.Context, name string, seq *uint64, types ...liveness.Type) error {
	if *seq > 0 {
		return nil
	}
	return s.db.ReadRow(ctx, loading, []any{seq}, "SELECT COALESCE(MAX(seq), 0) FROM events WHERE subject = ? AND type IN (?, ?)",
		name, typeCode(types[0]), typeCode(types[1]))
}
