package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// gapKeeper is what is to be done about gaps. It is part of the checkpointer.
type gapKeeper struct {
	next   int64    // number of the next row of a checkpoint; negative
	rows   []gapRow // that may not be in the database; each is written until that is certain
	breaks []judgement.Break
	loose  int   // gaps of checkpoints that were written and not sorted into pages yet
	tidied int64 // the hour in which tidy has succeeded
	saved  int64 // the slot of time in which what was learned was written down last, see saveEvery
	bytes  int64 // that rows of gaps have, as far as is known

	given, lost uint64            // gaps that were dropped: by the registry, and by the store
	habits      map[int64]uint32  // checksums of the pages that are in the database
	shapes      map[string]uint32 // the same of shapes
}

// gapRow is a row to write into gaps.
type gapRow struct {
	page, hour int64
	head       uint64
	data       []byte
	count      int
}

const (
	// gapsWaiting is how many gaps wait in memory while the database fails, packed; the oldest are dropped.
	gapsWaiting = 1_000_000
	// breaksWaiting is the same for breaks.
	breaksWaiting = 10_000
	// rowGaps is how many gaps the row of a checkpoint has at most.
	rowGaps = 1 << 17
)

// hourOf returns an instant in hours of Unix time.
func hourOf(at time.Time) int64 {
	seconds := at.Unix()
	hour := seconds / 3600
	if seconds%3600 < 0 {
		hour--
	}
	return hour
}

// takeGaps takes what the registry has recorded. Call it with checkpoints held.
func (s *Store) takeGaps(r *liveness.Registry) {
	// A device that was forgotten by an event up to this one has left no gaps to be taken.
	head := s.last.Load()
	gaps, breaks, dropped := r.Keeper().TakeGaps()
	s.checkpoint.gaps.given = dropped
	s.keepGaps(head, gaps, breaks)
}

// keepGaps keeps gaps and breaks for the next checkpoint. head is the offset of an event: none of the devices is
// one that it, or one before it, says is forgotten.
func (s *Store) keepGaps(head uint64, gaps []judgement.Gap, breaks []judgement.Break) {
	k := &s.checkpoint.gaps
	k.breaks = append(k.breaks, breaks...)
	k.breaks = slices.Delete(k.breaks, 0, max(len(k.breaks)-breaksWaiting, 0))
	p := gapPage{store: storeBytes(s.db.ID()), hour: hourOf(s.db.Now())}
	for part := range slices.Chunk(sortGaps(gaps), rowGaps) {
		p.page, p.gaps = k.next, part
		k.next--
		k.rows = append(k.rows, gapRow{page: p.page, hour: p.hour, head: head, data: appendGapPage(nil, &p), count: len(part)})
	}
	k.bound(gapsWaiting)
}

// bound drops the oldest rows while there are more gaps than most in them.
func (k *gapKeeper) bound(most int) {
	count := 0
	for i := range k.rows {
		count += k.rows[i].count
	}
	for count > most {
		count -= k.rows[0].count
		k.lost += uint64(k.rows[0].count)
		k.rows = slices.Delete(k.rows, 0, 1)
	}
}

// put writes what is not known to be in the database. It may be there: then it is the same.
func (k *gapKeeper) put(ctx context.Context, tx sqldb.Tx) error {
	if err := putGapRows(ctx, tx, k.rows); err != nil {
		return err
	}
	query := "INSERT INTO breaks (ended, source, kind, listened, clock, length) VALUES (?, ?, ?, ?, ?, ?)" +
		tx.Upsert("ended, source, kind, listened", "clock", "length")
	return tx.Repeat(ctx, query, len(k.breaks), func(args []any, i int) []any {
		b := &k.breaks[i]
		return append(args, sqldb.Nanos(b.To), b.Source, int64(b.Kind), int64(b.At), int64(b.Clock), int64(b.Length))
	})
}

func putGapRows(ctx context.Context, tx sqldb.Tx, rows []gapRow) error {
	query := "INSERT INTO gaps (page, hour, size, head, data) VALUES (?, ?, ?, ?, ?)" + tx.Upsert("page, hour", "size", "head", "data")
	return tx.Repeat(ctx, query, len(rows), func(args []any, i int) []any {
		row := &rows[i]
		return append(args, row.page, row.hour, int64(len(row.data)), int64(row.head), row.data)
	})
}

// written notes that all is in the database.
func (k *gapKeeper) written() {
	for i := range k.rows {
		k.loose += k.rows[i].count
		k.bytes += int64(len(k.rows[i].data))
	}
	k.rows, k.breaks = nil, nil
}

// putFreed notes which numbers are free, and since which event, before they are given to other devices.
func putFreed(ctx context.Context, tx sqldb.Tx, freed map[uint32]uint64) error {
	nums := slices.Sorted(maps.Keys(freed))
	t := &sqldb.Table{Name: "freed", Ints: []string{"num", "head"}, Key: "num"}
	return tx.Insert(ctx, t, len(nums), func(args []any, i int) []any {
		return append(args, int64(nums[i]), int64(freed[nums[i]]))
	})
}

// readFreed reads which numbers of a range were freed, and when.
func readFreed(ctx context.Context, q sqldb.Querier, from, to int64) (map[uint32]uint64, error) {
	return sqldb.Pairs[uint32, uint64](ctx, q, "SELECT num, head FROM freed WHERE num >= ? AND num < ?", from, to)
}
