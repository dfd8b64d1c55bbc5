package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/net/shm"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// Loaded is the result of [Store.Load].
type Loaded struct {
	Devices    int
	Checkpoint time.Time // of the latest checkpoint; zero if there was none
	// Corrupt has an error for each page of heartbeats that could not be used, with what was used
	// instead. If the pages were needed, since the memory of the process before is not there, all
	// devices count as heard at the checkpoint, as with Forgotten. It also has an error for each row
	// of a source or a group that could not be read as a whole; the rest of that row begins anew. So does
	// what was learned of devices, for each page of it that could not be used.
	Corrupt []error
	// SetAside has an error for each row of a device that could not be read. Such rows were moved to
	// the table set_aside, and their devices count as never seen until they are heard.
	SetAside []error
	// Followed reports whether Config.Follower knew the rows of devices, and Astray why what it knew could
	// not be used; nil if it could, or it knew nothing.
	Followed bool
	Astray   error
	// Lost is what the database had committed and has lost.
	Lost Lost
	// Recalled reports whether the process before was killed and its memory has all that it heard.
	Recalled bool
	// Forgotten is why the memory of a process that was killed could not be used; nil if it was, or
	// was not needed. The devices then count as heard at the checkpoint, within the bounds of
	// liveness.SourceRecord.Blank.
	Forgotten error
	// NoMemory is why the memory of this process does not outlive it; nil if it does.
	NoMemory error
}

// loading is the operation that errors of Load name.
const loading = "load"

// loadSpan is the number of device numbers that one query reads.
const loadSpan = 1 << 15

// maxNumber is the greatest device number that counts as undamaged, as in a registry.
const maxNumber = 1 << 26

// Load gives a registry all that is kept: sources, groups, devices. The registry must be new, without
// a source that listens; see keep.Registry. It comes before Append, Checkpoint and Run.
// It uses up to 4 CPUs. Events that the database has lost are appended again first, see [Config].Tail, and go
// to the outbox again. Errors: those of the database; ErrChanged if that failed, also after some of them.
func (s *Store) Load(ctx context.Context, r *liveness.Registry) (Loaded, error) {
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	loaded, err := s.load(ctx, r)
	s.record.outcome(err)
	return loaded, err
}

func (s *Store) load(ctx context.Context, r *liveness.Registry) (Loaded, error) {
	lost, err := s.restoreEvents(ctx)
	loaded := Loaded{Lost: lost}
	if err != nil {
		return loaded, err
	}
	meta, err := s.meta(ctx)
	if err != nil {
		return loaded, err
	}
	loaded.Checkpoint = sqldb.Time(meta.checkpointAt)
	r.Keeper().RecordGaps()
	recalled, forgotten := s.recall(meta.memory)
	loaded.Recalled, loaded.Forgotten = recalled != nil, forgotten
	loaded.NoMemory = s.remember(r, recalled != nil || errors.Is(forgotten, shm.ErrInUse))
	heard, corrupt, err := s.readPages(ctx, storeBytes(s.db.ID()))
	if err != nil {
		return loaded, err
	}
	heard.recalled = recalled
	blank := recalled == nil && (forgotten != nil || len(corrupt) > 0)
	known, damaged, err := s.restoreSources(ctx, r, recalled, blank)
	if err != nil {
		return loaded, err
	}
	groups, err := s.restoreGroups(ctx, r)
	if err != nil {
		return loaded, err
	}
	gone, err := s.restoreForgotten(ctx, r)
	if err != nil {
		return loaded, err
	}
	habits, strange, err := s.restoreHabits(ctx, r)
	if err != nil {
		return loaded, err
	}
	loaded.Corrupt = slices.Concat(corrupt, damaged, groups, gone, strange)
	rows, err := s.config.Follower.takeDevices(ctx, s.db)
	loaded.Followed, loaded.Astray = rows != nil && err == nil, err
	if err != nil {
		rows = nil
	}
	heads, n, aside, err := s.restoreDevices(ctx, r, heard, habits, rows)
	if err != nil {
		return loaded, err
	}
	if heads, err = s.setAside(ctx, r, aside, heads); err != nil {
		return loaded, err
	}
	loaded.Devices = n + loaded.tellAside(aside)
	if err := s.lookAside(ctx); err != nil {
		return loaded, err
	}
	s.writing.Lock()
	s.heads, s.sources, s.loaded = heads, known, true
	s.writing.Unlock()
	s.devices.Store(int64(loaded.Devices))
	return loaded, s.begin(ctx, r)
}

// tellAside adds the errors of rows that were set aside. It returns how many of their devices are there all the same.
func (l *Loaded) tellAside(rows []*asideRow) (back int) {
	for _, row := range rows {
		l.SetAside = append(l.SetAside, row.error())
		back += sqldb.Bool(row.back)
	}
	return back
}

// meta reads the row of meta.
func (s *Store) meta(ctx context.Context) (meta metaRow, err error) {
	err = s.db.Read(ctx, loading, func(ctx context.Context, q sqldb.Reader) (err error) {
		meta, err = readMeta(ctx, q)
		return err
	})
	return meta, err
}

// begin writes the first checkpoint of this process, after which its memory holds what is heard. Until
// then, the memory of the process before is not touched. Call it with checkpoints held.
func (s *Store) begin(ctx context.Context, r *liveness.Registry) error {
	if _, err := s.checkpointLocked(ctx, r); err != nil {
		return err
	}
	if s.memory == nil {
		s.discardMemory() // or the next process has no room for its own
		return nil
	}
	_ = os.Remove(s.movedMemory()) // mostly there is none
	return s.memory.Publish()
}

// heartbeats are the latest heartbeats of all devices, from the pages and from the memory of the
// process before.
type heartbeats struct {
	sources  map[string]int
	names    []string             // of the sources, by number
	heard    map[int][]keep.Heard // by page; with numbers of sources
	recalled *keep.Recollection   // nil without that memory
}

// last returns the listening time at which a device was heard last, and by which source; 0 and "" if it
// is not known.
func (h *heartbeats) last(num uint32) (last time.Duration, by string) {
	last, by = h.checkpointed(num)
	if h.recalled == nil {
		return last, by
	}
	switch recalled, at := h.recalled.Heard(num); at {
	case "":
	case by:
		last = max(last, recalled)
	default: // it has moved since
		last, by = recalled, at
	}
	return last, by
}

// checkpointed is last of the pages alone.
func (h *heartbeats) checkpointed(num uint32) (last time.Duration, by string) {
	part := h.heard[int(num/pageLen)]
	at := int(num % pageLen)
	if at >= len(part) || part[at] == 0 {
		return 0, ""
	}
	return part[at].Last(), h.names[part[at].Source()]
}

// add adds a page.
func (h *heartbeats) add(p *page) {
	numbers := make([]int, len(p.sources))
	for i, name := range p.sources {
		n, ok := h.sources[name]
		if !ok {
			n = len(h.sources)
			h.sources[name], h.names = n, append(h.names, name)
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

// readPages reads the newest good version of each page, and notes which slot the next version goes
// into. Call it with checkpoints held.
func (s *Store) readPages(ctx context.Context, storeID [16]byte) (*heartbeats, []error, error) {
	var all *heartbeats
	var bad map[int][]error // by page
	var slots map[int]int   // by page, the slot of the version that is used
	err := s.db.Read(ctx, loading, func(ctx context.Context, q sqldb.Reader) error {
		all = &heartbeats{sources: make(map[string]int), heard: make(map[int][]keep.Heard)}
		bad, slots = make(map[int][]error), make(map[int]int)
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var n, slot int
			var number int64
			var data sql.RawBytes
			if err := rows.Scan(&n, &slot, &number, &data); err != nil {
				return err
			}
			if _, ok := slots[n]; ok { // a newer version is good
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

// checkPage decodes a page and makes sure that it is the expected one.
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
