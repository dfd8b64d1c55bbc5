package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness/judgement"
)

// breakKind returns the meaning of a number in the table of breaks.
func breakKind(code int64) (kind judgement.BreakKind, ok bool) {
	switch code {
	case 0:
		return judgement.BreakStall, true
	case 1:
		return judgement.BreakCut, true
	case 2:
		return judgement.BreakBlank, true
	case 3:
		return judgement.BreakSpare, true
	}
	return 0, false
}

// maxBreak is the longest break that Breaks finds wherever it begins.
const maxBreak = 366 * 24 * time.Hour

// Breaks returns the breaks that overlap a window, by the instant at which they ended. Those longer than 366
// days are found only if they ended within 366 days after the window. Breaks are written along with
// checkpoints: the latest may still be missing. Errors: those of the database; a break of a kind that is not
// known.
func (s *Store) Breaks(ctx context.Context, from, to time.Time) ([]judgement.Break, error) {
	var breaks []judgement.Break
	err := s.db.Read(ctx, "read breaks", func(ctx context.Context, q sqldb.Reader) error {
		breaks = nil
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var b judgement.Break
			var ended, kind, listened, clock, length int64
			if err := rows.Scan(&ended, &b.Source, &kind, &listened, &clock, &length); err != nil {
				return err
			}
			var ok bool
			if b.Kind, ok = breakKind(kind); !ok {
				return fmt.Errorf("a break of source %q is of kind %d, which is not known", b.Source, kind)
			}
			b.To, b.At, b.Clock, b.Length = sqldb.Time(ended), time.Duration(listened), time.Duration(clock), time.Duration(length)
			breaks = append(breaks, b)
			return nil
		}, "SELECT ended, source, kind, listened, clock, length FROM breaks WHERE ended > ? AND ended <= ? AND ended - length < ? ORDER BY ended",
			sqldb.Nanos(from), sqldb.Nanos(to.Add(maxBreak)), sqldb.Nanos(to))
	})
	if err != nil {
		return nil, err
	}
	return breaks, nil
}
