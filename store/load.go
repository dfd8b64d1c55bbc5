package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
)

// Loaded is what a registry was given.
type Loaded struct {
	Devices    int
	Checkpoint time.Time // of the latest checkpoint; zero if there was none
	// Corrupt says which pages of heartbeats could not be used, and what was used instead. If they were needed, since the memory of the
	// process before is not there, all devices count as heard at the checkpoint, as with Forgotten.
	// It also says which rows of sources and groups could not be read as a whole; what could not be read of them begins anew.
	Corrupt []error
	// SetAside says which rows of devices could not be read. They were moved to the table set_aside, and their devices count as never seen
	// until they are heard.
	SetAside []error
	// Recalled says that the process before ended in disorder, and that all that it heard is known from its memory.
	Recalled bool
	// Forgotten is why not: the devices count as heard at the checkpoint, within the bounds of liveness.SourceRecord.Blank.
	Forgotten error
	// NoMemory is why the memory of this process does not outlive it.
	NoMemory error
}

// loading is what errors say of it.
const loading = "load"

// loadSpan is how many device numbers one query reads.
const loadSpan = 1 << 15

// maxNumber bounds what is believed of a device number, as a registry does.
const maxNumber = 1 << 26

// Load gives a registry all that is kept: sources, groups, devices. The registry must be new, with no source that listens yet; see
// liveness.Registry.Restore. It comes before Append, Checkpoint and Run. It reads as many devices at a time as there are CPUs.
func (s *Store) Load(ctx context.Context, r *liveness.Registry) (Loaded, error) {
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	loaded, err := s.load(ctx, r)
	s.record.outcome(err)
	return loaded, err
}

func (s *Store) load(ctx context.Context, r *liveness.Registry) (Loaded, error) {
	var loaded Loaded
	var meta metaRow
	err := s.db.Read(ctx, loading, func(ctx context.Context, q *bun.DB) (err error) {
		meta, err = readMeta(ctx, q)
		return err
	})
	if err != nil {
		return loaded, err
	}
	loaded.Checkpoint = sqldb.Time(meta.CheckpointAt)
	recalled, forgotten := s.recall(meta.Memory)
	loaded.Recalled, loaded.Forgotten = recalled != nil, forgotten
	loaded.NoMemory = s.remember(r)
	heard, corrupt, err := s.readPages(ctx, storeBytes(s.db.ID()))
	if err != nil {
		return loaded, err
	}
	loaded.Corrupt, heard.recalled = corrupt, recalled
	blank := recalled == nil && (forgotten != nil || len(corrupt) > 0)
	known, damaged, err := s.restoreSources(ctx, r, recalled, blank)
	if err != nil {
		return loaded, err
	}
	if err := s.restoreGroups(ctx, r, &damaged); err != nil {
		return loaded, err
	}
	if err := s.restoreForgotten(ctx, r, &damaged); err != nil {
		return loaded, err
	}
	loaded.Corrupt = append(loaded.Corrupt, damaged...)
	heads, n, aside, err := s.restoreDevices(ctx, r, heard)
	if err != nil {
		return loaded, err
	}
	if heads, err = s.setAside(ctx, r, aside, heads); err != nil {
		return loaded, err
	}
	for _, row := range aside {
		loaded.SetAside = append(loaded.SetAside, row.error())
		n += sqldb.Bool(row.back)
	}
	if err := s.lookAside(ctx); err != nil {
		return loaded, err
	}
	loaded.Devices = n
	s.writing.Lock()
	s.heads, s.sources, s.loaded = heads, known, true
	s.writing.Unlock()
	s.devices.Store(int64(n))
	return loaded, s.begin(ctx, r)
}

// begin writes the first checkpoint of a life, from which on what is heard is in its memory. Until then, what the life before left is not
// touched. Call it with checkpoints held.
func (s *Store) begin(ctx context.Context, r *liveness.Registry) error {
	if _, err := s.checkpointLocked(ctx, r); err != nil {
		return err
	}
	if s.memory == nil {
		return nil
	}
	return s.memory.Publish()
}

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

// heartbeats are the last signs of life of all devices, as the pages have them, and what was recalled.
type heartbeats struct {
	sources  map[string]int
	heard    map[int][]liveness.Heard // by page; with numbers of sources
	recalled *liveness.Recollection   // or nil
}

// last returns when a device was heard last by a source, 0 if that is not known.
func (h *heartbeats) last(num uint32, source string) time.Duration {
	if h.recalled == nil {
		return h.checkpointed(num, source)
	}
	return max(h.checkpointed(num, source), h.recalled.Heard(num, source))
}

// checkpointed is last as the pages have it.
func (h *heartbeats) checkpointed(num uint32, source string) time.Duration {
	part := h.heard[int(num/pageLen)]
	at := int(num % pageLen)
	if at >= len(part) {
		return 0
	}
	number, ok := h.sources[source]
	if part[at] == 0 || !ok || part[at].Source() != number {
		return 0
	}
	return part[at].Last()
}

// add takes a page in.
func (h *heartbeats) add(p *page) {
	numbers := make([]int, len(p.sources))
	for i, name := range p.sources {
		n, ok := h.sources[name]
		if !ok {
			n = len(h.sources)
			h.sources[name] = n
		}
		numbers[i] = n
	}
	for i, one := range p.heard {
		if one != 0 {
			p.heard[i] = heardOf(numbers[one.Source()], ticksOf(one))
		}
	}
	h.heard[int(p.page)] = p.heard
}

// readPages reads the newest good version of each page. It notes where the next ones go. Call it with checkpoints held.
func (s *Store) readPages(ctx context.Context, storeID [16]byte) (*heartbeats, []error, error) {
	var all *heartbeats
	var bad map[int][]error // by page
	var slots map[int]int   // by page, of what is used
	err := s.db.Read(ctx, loading, func(ctx context.Context, q *bun.DB) error {
		all = &heartbeats{sources: make(map[string]int), heard: make(map[int][]liveness.Heard)}
		bad, slots = make(map[int][]error), make(map[int]int)
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var n, slot int
			var number int64
			var data sql.RawBytes
			if err := rows.Scan(&n, &slot, &number, &data); err != nil {
				return err
			}
			if _, ok := slots[n]; ok { // there is a newer one
				return nil
			}
			p, err := checkPage(data, storeID, n, uint64(number))
			if err != nil {
				bad[n] = append(bad[n], fmt.Errorf("page %d of checkpoint %d: %w", n, number, err))
				return nil
			}
			slots[n] = slot
			all.add(p)
			return nil
		}, "SELECT page, slot, number, data FROM pages ORDER BY page, number DESC")
	})
	if err != nil {
		return nil, nil, err
	}
	var corrupt []error
	for _, n := range slices.Sorted(maps.Keys(bad)) {
		instead := "there is no other: its devices count as heard with their latest event"
		if _, ok := slots[n]; ok {
			instead = "the version before it was used"
		}
		for _, err := range bad[n] {
			corrupt = append(corrupt, fmt.Errorf("%w; %s", err, instead))
		}
	}
	s.checkpoint.pages = nil
	for n, slot := range slots {
		for n >= len(s.checkpoint.pages) {
			s.checkpoint.pages = append(s.checkpoint.pages, writtenPage{})
		}
		s.checkpoint.pages[n].slot = slot
	}
	return all, corrupt, nil
}

// checkPage decodes a page and makes sure that it is the one that it should be.
func checkPage(data []byte, storeID [16]byte, n int, number uint64) (*page, error) {
	p, err := decodePage(data)
	switch {
	case err != nil:
		return nil, err
	case p.store != storeID:
		return nil, fmt.Errorf("%w: it is of another database", errPage)
	case int(p.page) != n || p.number != number:
		return nil, fmt.Errorf("%w: it is page %d of checkpoint %d", errPage, p.page, p.number)
	}
	return p, nil
}

// restoreDevices reads all devices, several ranges of numbers at a time, and returns where the latest event of each is, and the rows that
// cannot be read.
func (s *Store) restoreDevices(
	ctx context.Context, r *liveness.Registry, heard *heartbeats,
) (heads []uint64, n int, aside []*asideRow, err error) {
	var top int64
	err = s.db.Read(ctx, loading, func(ctx context.Context, q *bun.DB) error {
		return q.QueryRowContext(ctx, "SELECT COALESCE(MAX(num), 0) FROM devices WHERE num <= ?", maxNumber).Scan(&top)
	})
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
			l := loader{store: s, registry: r, heard: heard, heads: heads, names: names, policies: make(map[string]liveness.Policy)}
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
	heads    []uint64 // each loader writes its own places
	names    map[int64]string
	policies map[string]liveness.Policy // a fleet has few
}

const loadRange = `SELECT d.num, s.state, s.reason, s.source, s.heard, s.until_at, s.since, s.seq, s.epoch, s.flags, s.head,
	s.announced, s.own, s.changes, d.id FROM devices d LEFT JOIN device_states s ON s.num = d.num WHERE d.num >= ? AND d.num < ?`

// load restores the devices of a range, and returns how many it did, and the rows that cannot be read.
func (l *loader) load(ctx context.Context, from, to int64) (n int, aside []*asideRow, err error) {
	var ints [stateInts]int64
	var announced, own, id string
	var changes []byte
	dest := make([]any, 0, stateInts+4)
	for i := range ints {
		dest = append(dest, &ints[i])
	}
	dest = append(dest, &announced, &own, &changes, &id)
	err = l.store.db.Read(ctx, loading, func(ctx context.Context, q *bun.DB) error {
		aside = nil
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			if err := rows.Scan(dest...); err != nil {
				row, err := newAside(rows, err)
				aside = append(aside, row)
				return err
			}
			if l.heads[ints[0]] != 0 { // the query is made again
				return nil
			}
			rec, err := l.record(&ints, announced, own, changes)
			if err == nil {
				rec.ID = id
				err = l.registry.Restore(rec)
			}
			if errors.Is(err, liveness.ErrFull) {
				return fmt.Errorf("%w: the database has more devices than this program may hold; raise max_devices", err)
			}
			if err != nil {
				row, err := newAside(rows, err)
				aside = append(aside, row)
				return err
			}
			l.heads[rec.Num] = uint64(ints[10])
			n++
			return nil
		}, loadRange, from, to)
	})
	return n, aside, err
}

// record makes a record of a row.
func (l *loader) record(ints *[stateInts]int64, announced, own string, changes []byte) (rec liveness.Record, err error) {
	state, ok := l.store.decoder.states[ints[1]]
	reason, is := l.store.decoder.reasons[ints[2]]
	if !ok || !is {
		return rec, fmt.Errorf("state %d, reason %d", ints[1], ints[2])
	}
	rec = liveness.Record{
		Num: uint32(ints[0]), State: state, Reason: reason, Source: l.names[ints[3]],
		Last: time.Duration(ints[4]), Until: time.Duration(ints[5]), Since: sqldb.Time(ints[6]), Seq: uint64(ints[7]), Epoch: uint64(ints[8]),
		Flapping: ints[9]&deviceFlapping != 0, Maintenance: ints[9]&deviceMaintenance != 0, Window: ints[9]&deviceWindow != 0,
	}
	switch head, last := ints[10], l.store.last.Load(); {
	case rec.Last < 0:
		return rec, fmt.Errorf("it was heard at a listening time of %v", rec.Last)
	case ints[7] < 0: // an epoch may be: devices have all 64 bits
		return rec, fmt.Errorf("seq %d", ints[7])
	case head <= 0 || uint64(head) > last: // with 0 it would count as a device without a row, which cannot be written then
		return rec, fmt.Errorf("its latest event is %d of %d", head, last)
	}
	if rec.Source != "" {
		rec.Heard = l.heard.last(rec.Num, rec.Source)
	}
	if rec.Announced, err = l.policy(announced); err != nil {
		return rec, err
	}
	if rec.Own, err = l.policy(own); err != nil {
		return rec, err
	}
	if len(changes) > 0 {
		rec.Changes, err = unpackChanges(changes)
	}
	return rec, err
}

// maxPolicies bounds how many policies a loader remembers.
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
