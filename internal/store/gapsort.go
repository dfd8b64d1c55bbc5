package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// looseMost is how many gaps of checkpoints make tidy sort them before their hour is over.
const looseMost = 1_000_000

// sorting is the operation that errors of tidy name.
const sorting = "sort the gaps of an hour"

// saveEvery is how often what was learned is written down.
const saveEvery = 10 * time.Minute

// tidy does once an hour, and when a process begins, what is to be done about gaps: the rows of checkpoints
// are sorted into pages, and old ones are deleted. What was learned it writes down every saveEvery. After an
// error, call it again.
func (s *Store) tidy(ctx context.Context, r *liveness.Registry) error {
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	k := &s.checkpoint.gaps
	now := s.db.Now()
	hour, slot := hourOf(now), now.Unix()/int64(saveEvery/time.Second)
	due := hour != k.tidied || k.loose >= looseMost
	if !due && slot == k.saved || len(k.rows) > 0 {
		return nil
	}
	var err error
	if due {
		err = s.tidyLocked(ctx, hour, k.loose >= looseMost)
	}
	if due && err == nil {
		k.tidied, k.loose = hour, 0
	}
	if err = errors.Join(err, s.saveHabits(ctx, r)); err == nil {
		k.saved = slot
	}
	if ctx.Err() != nil {
		return nil
	}
	s.record.outcome(err)
	return err
}

// tidyLocked is tidy for all hours but one, or for that, too.
func (s *Store) tidyLocked(ctx context.Context, hour int64, all bool) error {
	hours, err := s.looseHours(ctx)
	if err != nil {
		return err
	}
	var failed error // an hour that cannot be sorted does not keep old ones from being deleted
	for _, h := range hours {
		if h == hour && !all {
			continue
		}
		if failed = s.sortHour(ctx, h); failed != nil {
			break
		}
	}
	return errors.Join(failed, s.dropOldGaps(ctx))
}

// looseHours returns the hours of rows of checkpoints.
func (s *Store) looseHours(ctx context.Context) (hours []int64, err error) {
	err = s.db.Read(ctx, sorting, func(ctx context.Context, q sqldb.Reader) (err error) {
		hours, err = sqldb.Values[int64](ctx, q, "SELECT DISTINCT hour FROM gaps WHERE page < 0")
		return err
	})
	slices.Sort(hours)
	return hours, err
}

// packedGaps is a row of gaps that was read.
type packedGaps struct {
	page, hour int64
	head       uint64
	data       []byte
}

// readGapRows reads rows of gaps.
func readGapRows(ctx context.Context, q sqldb.Querier, query string, args ...any) ([]packedGaps, error) {
	return sqldb.All(ctx, q, func(r *packedGaps) []any { return []any{&r.page, &r.hour, &r.head, &r.data} }, query, args...)
}

// unpack returns the gaps of a row. Errors: it is damaged.
func (s *Store) unpack(row *packedGaps) ([]judgement.Gap, error) {
	p, err := decodeGapPage(row.data, s.decoder.reasons)
	switch {
	case err != nil:
	case p.store != storeBytes(s.db.ID()):
		err = fmt.Errorf("%w: it is of another database", errGapPage)
	case p.page != row.page || p.hour != row.hour:
		err = fmt.Errorf("%w: it is page %d of hour %d", errGapPage, p.page, p.hour)
	default:
		return p.gaps, nil
	}
	return nil, fmt.Errorf("gaps, page %d of hour %d: %w", row.page, row.hour, err)
}

// gapHour is how many bytes the gaps of an hour take.
type gapHour struct{ hour, bytes int64 }

// gapHours returns the hours that have gaps, oldest first.
func (s *Store) gapHours(ctx context.Context) ([]gapHour, error) {
	return sqldb.ReadAll(ctx, s.db, "ask for the size of gaps", func(h *gapHour) []any { return []any{&h.hour, &h.bytes} },
		"SELECT hour, SUM(size) FROM gaps GROUP BY hour ORDER BY hour")
}

// dropOldGaps deletes the hours that are too old or too much, and what nobody needs without them.
func (s *Store) dropOldGaps(ctx context.Context) error {
	hours, err := s.gapHours(ctx)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, h := range hours {
		total += h.bytes
	}
	kept := s.keeps.Load()
	old := s.db.OldBefore(s.db.Now(), kept.gapsMaxAge)
	for i, h := range hours {
		if i == len(hours)-1 || h.hour >= hourOf(old) && total <= int64(kept.gapsMaxBytes) {
			break
		}
		if err := s.dropHour(ctx, h.hour); err != nil {
			return err
		}
		total -= h.bytes
	}
	s.checkpoint.gaps.bytes = total
	s.record.gapsAre(total, s.checkpoint.gaps.given+s.checkpoint.gaps.lost)
	return s.db.WriteLate(ctx, sorting, func(ctx context.Context, tx sqldb.Tx) error {
		var head sql.NullInt64
		if err := tx.QueryRowContext(ctx, "SELECT MIN(head) FROM gaps").Scan(&head); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM breaks WHERE ended < ?", old); err != nil {
			return err
		}
		if head.Valid {
			if _, err := tx.Exec(ctx, "DELETE FROM freed WHERE head <= ?", head.Int64); err != nil {
				return err
			}
		}
		return tx.Fence(ctx, "fence = fence")
	})
}

func (s *Store) dropHour(ctx context.Context, hour int64) error {
	return s.db.WriteLate(ctx, "delete old gaps", func(ctx context.Context, tx sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM gaps WHERE hour = ?", hour); err != nil {
			return err
		}
		return tx.Fence(ctx, "fence = fence")
	})
}

// startOf returns the beginning of an hour.
func startOf(hour int64) time.Time { return time.Unix(hour*3600, 0) }
