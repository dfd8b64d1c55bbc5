package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
)

// restoreSources gives the registry its sources, as they were recalled, or blank if that failed. It returns which there are, and
// what of them could not be read.
func (s *Store) restoreSources(
	ctx context.Context, r *liveness.Registry, recalled *liveness.Recollection, blank bool,
) (map[string]bool, []error, error) {
	known := make(map[string]bool)
	var records []liveness.SourceRecord
	var damaged []error
	err := s.db.Read(ctx, loading, func(ctx context.Context, q *bun.DB) error {
		records, damaged = nil, nil
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			values, err := scanAny(rows, 7)
			if err != nil {
				return err
			}
			rec, err := sourceOf(values)
			if err != nil {
				damaged = append(damaged, err)
			}
			if rec.Name != "" {
				records = append(records, rec)
			}
			return nil
		}, "SELECT name, seq, listened, at, deaf, deaf_total, missed FROM sources ORDER BY name")
	})
	if err != nil {
		return nil, nil, err
	}
	for _, rec := range records {
		if err := s.lastSeq(ctx, rec.Name, &rec.Seq, liveness.SourceDeaf, liveness.SourceHeard); err != nil {
			return nil, nil, err
		}
		if rec.Blank = blank; recalled != nil {
			recalled.Source(&rec)
		}
		if err := r.RestoreSource(rec); err != nil { //nolint:contextcheck // it makes timers, which end with the registry
			return nil, nil, err
		}
		known[rec.Name] = true
	}
	return known, damaged, nil
}

func (s *Store) restoreGroups(ctx context.Context, r *liveness.Registry, damaged *[]error) error {
	var records []liveness.GroupRecord
	var bad []error
	err := s.db.Read(ctx, loading, func(ctx context.Context, q *bun.DB) error {
		records, bad = nil, nil
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			values, err := scanAny(rows, 4)
			if err != nil {
				return err
			}
			name, _ := values[0].(string)
			seq, outage, from := numberOf(values[1], &err), numberOf(values[2], &err), numberOf(values[3], &err)
			if err != nil {
				bad = append(bad, fmt.Errorf("the row of group %q: %w", name, err))
			}
			records = append(records, liveness.GroupRecord{Name: name, Seq: uint64(seq), Outage: outage != 0, From: time.Unix(0, from)})
			return nil
		}, "SELECT name, seq, outage, began FROM outages")
	})
	for i := range records {
		if err == nil {
			err = s.lastSeq(ctx, records[i].Name, &records[i].Seq, liveness.GroupOutageStarted, liveness.GroupOutageEnded)
			r.RestoreGroup(records[i])
		}
	}
	*damaged = append(*damaged, bad...)
	return err
}

// restoreForgotten tells the registry which numbers the events of forgotten devices have had.
func (s *Store) restoreForgotten(ctx context.Context, r *liveness.Registry, damaged *[]error) error {
	var bad []error
	err := s.db.Read(ctx, loading, func(ctx context.Context, q *bun.DB) error {
		bad = nil
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			values, err := scanAny(rows, 2)
			if err != nil {
				return err
			}
			id, _ := values[0].(string)
			var mistake error
			seq := numberOf(values[1], &mistake)
			switch {
			case mistake != nil:
				bad = append(bad, fmt.Errorf("the row of the forgotten device %q: %w", id, mistake))
			case seq < 0 || seq > math.MaxInt64/2:
				bad = append(bad, fmt.Errorf("the row of the forgotten device %q: the number of its last event is %d", id, seq))
			default:
				r.RestoreForgotten(id, uint64(seq))
			}
			return nil
		}, "SELECT id, seq FROM forgotten")
	})
	*damaged = append(*damaged, bad...)
	return err
}

// lastSeq looks for the number of the latest event of a source or a group, if its row does not say it.
func (s *Store) lastSeq(ctx context.Context, name string, seq *uint64, types ...liveness.Type) error {
	if *seq > 0 {
		return nil
	}
	return s.db.Read(ctx, loading, func(ctx context.Context, q *bun.DB) error {
		return q.QueryRowContext(ctx, "SELECT COALESCE(MAX(seq), 0) FROM events WHERE subject = ? AND type IN (?, ?)",
			name, typeCode(types[0]), typeCode(types[1])).Scan(seq)
	})
}
