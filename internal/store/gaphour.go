package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness/judgement"
)

const (
	// sortBytes is how many bytes of rows of checkpoints are sorted at a time, about: some 900,000 gaps,
	// which take 100 bytes each meanwhile.
	sortBytes = 8 << 20
	// sortPages is how many pages that are there already are read at a time.
	sortPages = 16
	// pageBytes is how many bytes a page has at most, so that each database takes it.
	pageBytes = 8 << 20
)

// sortHour sorts the rows of checkpoints of an hour into pages, some rows at a time, each time in one
// transaction. If that was committed and the answer was lost, there is nothing to do the next time. Pages
// that are there already, since the clock was set back or from the rows before, get the gaps in addition.
func (s *Store) sortHour(ctx context.Context, hour int64) error {
	for {
		o := sorter{store: s, hour: hour}
		if err := o.read(ctx); err != nil || o.newest == 0 {
			return err
		}
		if err := s.db.WriteLate(ctx, sorting, o.write); err != nil {
			return err
		}
		s.checkpoint.gaps.lost += uint64(o.lost)
		if o.damaged > 0 {
			s.record.damagedGaps(o.damaged)
		}
		if !o.more {
			return nil
		}
	}
}

// sorter sorts rows of checkpoints of an hour. It reads and packs before the transaction, for which appends
// may have to wait: nobody else writes these rows while checkpoints is held and the fence stands.
type sorter struct {
	store  *Store
	hour   int64
	newest int64 // page of the newest of the rows, 0 if there is none
	more   bool  // there are newer ones

	head          uint64 // offset of an event: devices forgotten up to it are left out
	freed         map[uint32]uint64
	loose         []readGaps // those of each are sorted by number
	rows          []gapRow
	damaged, lost int
}

// readGaps is a row of gaps that is not packed.
type readGaps struct {
	head uint64
	gaps []judgement.Gap
}

// read reads what is to be sorted, and packs it.
func (o *sorter) read(ctx context.Context) error {
	// All that is freed by an event up to the one in meta is known here, and left out. What is freed by a
	// later one will be told from the offset in the page.
	meta, err := o.store.meta(ctx)
	if err != nil {
		return err
	}
	o.head = meta.lastOffset
	if err := o.choose(ctx); err != nil || o.newest == 0 {
		return err
	}
	o.loose, err = o.unpacked(ctx, "page < 0 AND page >= ? AND hour = ? ORDER BY page DESC", o.newest, o.hour) // the oldest first
	if err != nil {
		return err
	}
	err = o.store.db.Read(ctx, sorting, func(ctx context.Context, q sqldb.Reader) (err error) {
		o.freed, err = readFreed(ctx, q, 0, maxNumber+1)
		return err
	})
	if err != nil {
		return err
	}
	return o.pack(ctx)
}

// choose finds out which rows are to be sorted this time.
func (o *sorter) choose(ctx context.Context) error {
	return o.store.db.Read(ctx, sorting, func(ctx context.Context, q sqldb.Reader) error {
		total := int64(0)
		o.newest, o.more = 0, false
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var page, size int64
			err := rows.Scan(&page, &size)
			if total += size; o.newest == 0 || total <= sortBytes {
				o.newest = page
			} else {
				o.more = true
			}
			return err
		}, "SELECT page, size FROM gaps WHERE page < 0 AND hour = ? ORDER BY page DESC", o.hour)
	})
}

// unpacked reads rows, but for those that are damaged.
func (o *sorter) unpacked(ctx context.Context, where string, args ...any) (rows []readGaps, err error) {
	var all []packedGaps
	err = o.store.db.Read(ctx, sorting, func(ctx context.Context, q sqldb.Reader) (err error) {
		all, err = readGapRows(ctx, q, "SELECT page, hour, head, data FROM gaps WHERE "+where, args...)
		return err
	})
	for i := range all {
		gaps, bad := o.store.unpack(&all[i])
		o.damaged += sqldb.Bool(bad != nil)
		rows = append(rows, readGaps{head: all[i].head, gaps: gaps})
		all[i].data = nil
	}
	return rows, err
}

// pack makes the pages.
func (o *sorter) pack(ctx context.Context) error {
	touched := make(map[int64]bool)
	for i := range o.loose {
		for j := range o.loose[i].gaps {
			touched[pageOf(&o.loose[i].gaps[j])] = true
		}
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(touched)), sortPages) {
		there, err := o.unpacked(ctx, "hour = ? AND page IN (?)", o.hour, part)
		if err != nil {
			return err
		}
		for _, n := range part {
			o.packPage(n, o.takeGaps(o.takeGaps(nil, there, n), o.loose, n))
		}
	}
	return nil
}

func pageOf(g *judgement.Gap) int64 { return int64(g.Num / pageLen) }

// takeGaps appends the gaps of a page to all, but for those of devices that are forgotten. Pages are taken in
// order: take cuts off from rows what comes before the next page.
func (o *sorter) takeGaps(all []judgement.Gap, rows []readGaps, n int64) []judgement.Gap {
	for i := range rows {
		row := &rows[i]
		for len(row.gaps) > 0 && pageOf(&row.gaps[0]) <= n {
			if g := &row.gaps[0]; pageOf(g) == n && row.head >= o.freed[g.Num] {
				all = append(all, *g)
			}
			row.gaps = row.gaps[1:]
		}
	}
	return all
}

// packPage packs a page. Of too many gaps the oldest are left out.
func (o *sorter) packPage(n int64, all []judgement.Gap) {
	for {
		if more := len(all) - maxGaps; more > 0 {
			o.lost += more
			all = all[more:]
		}
		p := gapPage{store: storeBytes(o.store.db.ID()), page: n, hour: o.hour, gaps: sortGaps(all)}
		data := appendGapPage(nil, &p)
		if len(data) <= pageBytes {
			o.rows = append(o.rows, gapRow{page: n, hour: o.hour, head: o.head, data: data, count: len(p.gaps)})
			return
		}
		o.lost += len(all) / 2
		all = all[len(all)/2:]
	}
}

// write puts the pages in the place of the rows.
func (o *sorter) write(ctx context.Context, tx sqldb.Tx) error {
	if err := putGapRows(ctx, tx, o.rows); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM gaps WHERE page < 0 AND page >= ? AND hour = ?", o.newest, o.hour); err != nil {
		return err
	}
	return tx.Fence(ctx, "fence = fence") // late, since an append waits for it
}
