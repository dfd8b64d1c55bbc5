package store

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"runtime"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// checkpointer is the state of the checkpoints.
type checkpointer struct {
	number uint64 // of the last checkpoint
	memory string // key of the memory that belongs to it; empty if none is needed, since the process ends
	pages  []writtenPage
	heard  []keep.Heard // reused for the next snapshot
	seed   maphash.Seed
	gaps   gapKeeper
	size   eventSize
}

// writtenPage is the latest version of a page. Each page has two slots, and a new version goes into the
// slot of the version before the latest: if it is damaged, the latest is still there.
type writtenPage struct {
	slot  int
	sum   uint64
	known bool // sum is known
}

// pageRow is a row to write into pages.
type pageRow struct {
	page int
	slot int
	sum  uint64
	data []byte
}

// Checkpoint writes the listening clocks, the latest heartbeat of each device, and the gaps that ended since. [Store.Run] calls it
// again and again; [Store.Finish] writes the last one. Errors: sqldb.ErrNotOpen, sqldb.ErrFenced,
// ErrChanged, and those of the database.
func (s *Store) Checkpoint(ctx context.Context, r *liveness.Registry) error {
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	st, err := s.checkpointLocked(ctx, r)
	if err == nil || ctx.Err() == nil {
		s.record.checkpoint(st, err)
	}
	return err
}

func (s *Store) checkpointLocked(ctx context.Context, r *liveness.Registry) (CheckpointStats, error) {
	if !s.isLoaded() {
		return CheckpointStats{}, errNotLoaded
	}
	runtime.LockOSThread() // its CPU time is measured
	defer runtime.UnlockOSThread()
	begin, cpu := time.Now(), threadTime()
	c := &s.checkpoint
	sources, heard := r.Keeper().Snapshot(c.heard)
	c.heard = heard
	rows := c.pack(s.db.ID(), sources, heard)
	s.takeGaps(r)
	err := s.db.WriteLate(ctx, "write a checkpoint", func(ctx context.Context, tx sqldb.Tx) error {
		if err := putPages(ctx, tx, c.number+1, rows); err != nil {
			return err
		}
		if err := c.gaps.put(ctx, tx); err != nil {
			return err
		}
		// The fence comes late, since an append waits for it, but before the rows of sources, as it
		// does in an append.
		last := s.last.Load()
		held, err := tx.FenceIf(ctx, "checkpoint = ?, checkpoint_at = ?, steady = ?, memory = ?", "checkpoint >= ? AND last_offset >= ?",
			c.number+1, sqldb.Nanos(s.db.Now()), sqldb.Nanos(s.db.Steady()), c.memory, c.number, last)
		switch {
		case err != nil:
			return err
		case !held:
			return fmt.Errorf("%w: it has not checkpoint %d and event %d", ErrChanged, c.number, last)
		}
		return putClocks(ctx, tx, sources)
	})
	if err != nil {
		return CheckpointStats{}, err
	}
	c.number++
	c.gaps.written()
	st := CheckpointStats{Pages: len(rows)}
	for _, row := range rows {
		c.pages[row.page] = writtenPage{slot: row.slot, sum: row.sum, known: true}
		st.Bytes += len(row.data)
	}
	s.record.gapsAre(c.gaps.bytes, c.gaps.given+c.gaps.lost)
	st.At, st.Duration, st.CPU = time.Now(), time.Since(begin), threadTime()-cpu
	return st, nil
}

// pack returns the pages that have changed.
func (c *checkpointer) pack(storeID string, sources []keep.SourceRecord, heard []keep.Heard) []pageRow {
	if c.seed == (maphash.Seed{}) {
		c.seed = maphash.MakeSeed()
	}
	names := make([]string, len(sources))
	var h maphash.Hash
	h.SetSeed(c.seed)
	for i := range sources {
		names[i] = sources[i].Name
		maphash.WriteComparable(&h, names[i])
	}
	ofNames := h.Sum64()
	id := storeBytes(storeID)
	var rows []pageRow
	for n := 0; n*pageLen < len(heard); n++ {
		if n == len(c.pages) {
			c.pages = append(c.pages, writtenPage{})
		}
		part := heard[n*pageLen : min((n+1)*pageLen, len(heard))]
		sum := ofNames ^ maphash.Bytes(c.seed, unsafe.Slice((*byte)(unsafe.Pointer(&part[0])), 8*len(part)))
		if was := c.pages[n]; was.known && was.sum == sum {
			continue
		}
		p := page{store: id, page: uint32(n), number: c.number + 1, heard: part}
		rows = append(rows, pageRow{page: n, slot: 1 - c.pages[n].slot, sum: sum, data: appendPage(nil, &p, names)})
	}
	return rows
}

func storeBytes(storeID string) (id [16]byte) {
	_, _ = hex.Decode(id[:], []byte(storeID)[:min(len(storeID), 32)]) // with another length it is damaged, and so are the pages
	return id
}

func putPages(ctx context.Context, tx sqldb.Tx, number uint64, rows []pageRow) error {
	query := "INSERT INTO pages (page, slot, number, data) VALUES (?, ?, ?, ?)" + tx.Upsert("page, slot", "number", "data")
	return tx.Repeat(ctx, query, len(rows), func(args []any, i int) []any {
		return append(args, rows[i].page, rows[i].slot, int64(number), rows[i].data)
	})
}

// deafEntry is a deaf interval in the database: its beginning and end as Unix times and its listening
// time, in ns.
type deafEntry [3]int64

// putClocks writes the clocks of the sources. It leaves the numbers of their events as they are.
func putClocks(ctx context.Context, tx sqldb.Tx, sources []keep.SourceRecord) error {
	for _, src := range sources {
		if src.At.IsZero() {
			continue
		}
		entries := make([]deafEntry, len(src.Deaf))
		for i, f := range src.Deaf {
			entries[i] = deafEntry{sqldb.Nanos(f.From), sqldb.Nanos(f.To), int64(f.Listened)}
		}
		deaf, err := json.Marshal(entries)
		if err != nil {
			return err
		}
		turns, err := json.Marshal(turnEntries(src.Turns))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO sources (name, seq, listened, at, deaf, deaf_total, missed, blank, turns) VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?)"+
			tx.Upsert("name", "listened", "at", "deaf", "deaf_total", "missed", "blank", "turns"),
			src.Name, src.Listened, src.At, string(deaf), src.DeafTotal, src.Missed, src.Blanked, string(turns))
		if err != nil {
			return err
		}
	}
	return nil
}

// turnEntry is a turn of a clock in the database: its listening time, and as Unix times in ns when it was, and until when others followed
// that were merged into it, 0 if none were.
type turnEntry [3]int64

func turnEntries(turns []judgement.Turn) []turnEntry {
	entries := make([]turnEntry, len(turns))
	for i, t := range turns {
		entries[i] = turnEntry{int64(t.Listened), sqldb.Nanos(t.At), sqldb.Nanos(t.Until)}
	}
	return entries
}

// sourceOf returns the record of a row of sources. Its error names the columns that could not be read,
// which are zero then.
func sourceOf(row []any) (rec keep.SourceRecord, err error) {
	rec.Name, _ = row[0].(string)
	rec.Seq, rec.Listened = uint64(numberOf(row[1], &err)), time.Duration(numberOf(row[2], &err))
	rec.At, rec.DeafTotal = sqldb.Time(numberOf(row[3], &err)), time.Duration(numberOf(row[5], &err))
	rec.Missed, rec.Blanked = time.Duration(numberOf(row[6], &err)), time.Duration(numberOf(row[7], &err))
	for _, e := range entriesOf[deafEntry](row[4], "deaf intervals", &err) {
		rec.Deaf = append(rec.Deaf, judgement.DeafInterval{From: sqldb.Time(e[0]), To: sqldb.Time(e[1]), Listened: time.Duration(e[2])})
	}
	for _, e := range entriesOf[turnEntry](row[8], "turns of the clock", &err) {
		rec.Turns = append(rec.Turns, judgement.Turn{Listened: time.Duration(e[0]), At: sqldb.Time(e[1]), Until: sqldb.Time(e[2])})
	}
	if err != nil {
		err = fmt.Errorf("the row of source %q: %w", rec.Name, err)
	}
	return rec, err
}

// entriesOf returns a list that was written as JSON, or sets an error.
func entriesOf[E any](v any, what string, err *error) (entries []E) {
	text, _ := v.(string)
	if text == "" {
		return nil
	}
	if bad := json.Unmarshal([]byte(text), &entries); bad != nil {
		*err = fmt.Errorf("%s: %w", what, bad)
		return nil
	}
	return entries
}

// numberOf returns a number that is not negative, or sets an error.
func numberOf(v any, err *error) int64 {
	n, ok := intOf(v)
	if !ok || n < 0 {
		*err = fmt.Errorf("%v is no number, or a negative one", v)
		return 0
	}
	return n
}
