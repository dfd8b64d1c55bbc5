package store

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness/judgement"
)

// gapRowsAtOnce is how many rows Gaps reads at once, about: some 20 MB, packed, of a large fleet.
const gapRowsAtOnce = 2048

// Gaps returns the gaps that ended from one instant on and before another, and the limits that were set then,
// of the devices that want reports; nil is all. Those of a device are in order, by the hour in which they
// were recorded; those of some thousand devices come in between. A device number may have been another
// device's before: the gaps of that are left out. What the registry has recorded since the latest checkpoint
// is not among them.
//
// A row that is damaged gives an error that wraps liveness.ErrDamagedGaps, after which the others follow. An
// error of the database is the last. Nothing is locked meanwhile.
func (s *Store) Gaps(ctx context.Context, from, to time.Time, want func(num uint32) bool) iter.Seq2[judgement.Gap, error] {
	return func(yield func(judgement.Gap, error) bool) {
		v := gapVisit{store: s, from: from, to: to, want: want, yield: yield, loose: make(map[int64][]judgement.Gap)}
		if err := v.all(ctx); err != nil {
			yield(judgement.Gap{}, err)
		}
	}
}

// gapVisit is a call of Gaps.
type gapVisit struct {
	store    *Store
	from, to time.Time
	want     func(num uint32) bool
	yield    func(judgement.Gap, error) bool
	loose    map[int64][]judgement.Gap // by page: rows of checkpoints, which each read finds again
}

// hours returns the hours whose rows may have gaps of the window. What ended at the end of an hour may be in a
// row of the next; what waited for the database still has the hour in which it was taken.
func (v *gapVisit) hours() (first, last int64) { return hourOf(v.from), hourOf(v.to) + 1 }

// all visits all pages.
func (v *gapVisit) all(ctx context.Context) error {
	pages, err := v.pages(ctx)
	if err != nil {
		return err
	}
	first, last := v.hours()
	span := max(gapRowsAtOnce/max(last-first+1, 1), 1)
	for len(pages) > 0 {
		n := 1
		for n < len(pages) && pages[n] < pages[0]+span {
			n++
		}
		begin, end := pages[0], pages[n-1]+1
		pages = pages[n:]
		rows, freed, err := v.read(ctx, begin, end)
		if err != nil {
			return err
		}
		if !v.visit(rows, freed, begin, end) {
			return nil
		}
	}
	return nil
}

// pages returns the pages that have a device that is wanted.
func (v *gapVisit) pages(ctx context.Context) (pages []int64, err error) {
	var top int64
	err = v.store.db.ReadRow(ctx, readingGaps, []any{&top}, "SELECT COALESCE(MAX(num), 0) FROM devices WHERE num <= ?", maxNumber)
	for n := int64(0); n <= top/pageLen; n++ {
		for num := n * pageLen; num <= min(top, (n+1)*pageLen-1); num++ {
			if v.want == nil || v.want(uint32(num)) {
				pages = append(pages, n)
				break
			}
		}
	}
	return pages, err
}

const readingGaps = "read gaps"

// read reads the rows of a range of pages, and those of checkpoints, as they are at one instant; and then
// which numbers were freed by then.
func (v *gapVisit) read(ctx context.Context, begin, end int64) (rows []packedGaps, freed map[uint32]uint64, err error) {
	first, last := v.hours()
	const columns = "SELECT page, hour, head, data FROM gaps WHERE "
	err = v.store.db.Read(ctx, readingGaps, func(ctx context.Context, q sqldb.Reader) error {
		rows, err = readGapRows(ctx, q,
			columns+"page < 0 AND hour >= ? AND hour <= ? UNION ALL "+columns+"page >= ? AND page < ? AND hour >= ? AND hour <= ?",
			first, last, begin, end, first, last)
		if err == nil {
			freed, err = readFreed(ctx, q, begin*pageLen, end*pageLen)
		}
		return err
	})
	slices.SortFunc(rows, func(a, b packedGaps) int {
		loose := func(r *packedGaps) int64 { return max(-r.page, 0) } // those of checkpoints come after the page, in order
		return cmp.Or(cmp.Compare(a.hour, b.hour), cmp.Compare(loose(&a), loose(&b)), cmp.Compare(a.page, b.page))
	})
	return rows, freed, err
}

// visit yields the gaps of rows that are in a range of pages. It reports whether to go on.
func (v *gapVisit) visit(rows []packedGaps, freed map[uint32]uint64, begin, end int64) bool {
	for i := range rows {
		gaps, err := v.unpack(&rows[i])
		if err != nil && !v.yield(judgement.Gap{}, err) {
			return false
		}
		for j := range gaps {
			if g := &gaps[j]; v.wants(g, begin, end) && rows[i].head >= freed[g.Num] && !v.yield(*g, nil) {
				return false
			}
		}
	}
	return true
}

// unpack returns the gaps of a row. A row of a checkpoint is unpacked, or found to be damaged, once.
func (v *gapVisit) unpack(row *packedGaps) ([]judgement.Gap, error) {
	if row.page >= 0 {
		return v.store.unpack(row)
	}
	gaps, known := v.loose[row.page]
	if known {
		return gaps, nil
	}
	gaps, err := v.store.unpack(row)
	v.loose[row.page] = gaps
	return gaps, err
}

// wants reports whether a gap is to be yielded.
func (v *gapVisit) wants(g *judgement.Gap, begin, end int64) bool {
	page := int64(g.Num / pageLen)
	return page >= begin && page < end && !g.At.Before(v.from) && g.At.Before(v.to) && (v.want == nil || v.want(g.Num))
}

// GapsKept returns since when gaps are kept; zero if there are none. That is when the first record of the oldest hour
// was made, or the gap of which it is began, but not before that hour: what was before may be deleted. Errors: those of
// the database.
func (s *Store) GapsKept(ctx context.Context) (from time.Time, err error) {
	var rows []packedGaps
	err = s.db.Read(ctx, readingGaps, func(ctx context.Context, q sqldb.Reader) (err error) {
		rows, err = readGapRows(ctx, q, "SELECT page, hour, head, data FROM gaps WHERE hour = (SELECT MIN(hour) FROM gaps)")
		return err
	})
	if err != nil || len(rows) == 0 {
		return time.Time{}, err
	}
	for i := range rows {
		gaps, _ := s.unpack(&rows[i]) // Gaps tells of damaged ones
		for j := range gaps {
			at := gaps[j].At
			if isGap(&gaps[j]) {
				at = at.Add(-gaps[j].Length)
			}
			if from.IsZero() || at.Before(from) {
				from = at
			}
		}
	}
	if begin := startOf(rows[0].hour); from.Before(begin) {
		from = begin
	}
	return from, nil
}
