package store

import (
	"cmp"
	"slices"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// batch has the rows that a batch of events changes, and the changes in memory after the commit.
type batch struct {
	first     uint64 // offset of the first event
	events    []eventRow
	states    []stateRow        // the last of each device, by number
	fresh     []stateRow        // those of them that have no row yet
	gone      map[uint32]bool   // numbers whose rows are deleted before others are inserted
	freed     map[uint32]uint64 // numbers that may be given to others once this is committed, with the offset of the event
	names     []nameRow
	sources   map[string]uint64 // seq; 0 for a source that only needs a row
	outages   map[string]*liveness.Event
	forgotten map[string]forgottenRow // by id
	heads     map[uint32]uint64
	known     map[string]bool      // sources that have a row
	returned  map[string]*eventRow // by id: the first events of devices that may have been forgotten before
}

// sign notes in events who records them, and changes messages that are not valid text.
func (s *Store) sign(events []liveness.Event) {
	term := s.db.Fence()
	for i := range events {
		ev := &events[i]
		ev.Message, ev.Term, ev.Node = sqldb.Text(ev.Message, maxMessage), term, s.config.Node
	}
}

// stageLocked makes a batch of events.
func (s *Store) stageLocked(events []liveness.Event) *batch {
	b := &batch{
		first:     s.last.Load() + 1,
		events:    make([]eventRow, len(events)),
		sources:   make(map[string]uint64),
		outages:   make(map[string]*liveness.Event),
		forgotten: make(map[string]forgottenRow),
		heads:     make(map[uint32]uint64, len(events)),
		gone:      make(map[uint32]bool),
		freed:     make(map[uint32]uint64),
		known:     s.sources,
	}
	name := s.names.naming()
	last := make(map[uint32]*keep.Record, len(events)) // nil for one that is forgotten
	for i := range events {
		ev := &events[i]
		row := &b.events[i]
		*row = eventRow{
			event: ev, pos: b.first + uint64(i),
			source: name.number(ev.Source), group: name.number(ev.Group), policy: name.number(ev.Policy),
			node: name.number(ev.Node),
		}
		switch {
		case ev.Record != nil:
			if row.prev = b.head(s, ev.Record.Num); row.prev == 0 && ev.Seq > 1 {
				b.back(row)
			}
			b.device(s, ev.Record, row.pos)
			last[ev.Record.Num] = ev.Record
		case ev.Type == liveness.SourceDeaf || ev.Type == liveness.SourceHeard:
			b.sources[ev.Subject] = max(b.sources[ev.Subject], ev.Seq)
		case ev.Type == liveness.GroupOutageStarted || ev.Type == liveness.GroupOutageEnded:
			b.outages[ev.Subject] = ev
		}
	}
	for num, rec := range last {
		if rec.Forgotten {
			continue
		}
		known := s.headLocked(num) != 0 && !b.gone[num]
		b.states = append(b.states, stateRow{record: rec, head: b.heads[num], known: known})
	}
	slices.SortFunc(b.states, func(a, b stateRow) int { return cmp.Compare(a.record.Num, b.record.Num) })
	for i := range b.states { // in order: a batch that is staged again gives names the same numbers
		r := &b.states[i]
		r.quota = name.number(r.record.Quota)
		if r.source = name.number(r.record.Source); !r.known {
			b.fresh = append(b.fresh, *r)
		}
	}
	b.names = name.fresh
	return b
}

// head returns the offset of the latest event of a device number, 0 if it has none.
func (b *batch) head(s *Store, num uint32) uint64 {
	if head, ok := b.heads[num]; ok {
		return head
	}
	return s.headLocked(num)
}

// back notes the first event of a device that may have been forgotten before. Its previous event is
// the last one from then.
func (b *batch) back(row *eventRow) {
	id := row.event.Subject
	if f, ok := b.forgotten[id]; ok {
		row.prev = f.head
		return
	}
	if b.returned == nil {
		b.returned = make(map[string]*eventRow)
	}
	b.returned[id] = row
}

// device adds an event of a device.
func (b *batch) device(s *Store, rec *keep.Record, pos uint64) {
	if name := rec.Source; name != "" && !b.known[name] {
		b.sources[name] += 0
	}
	if !rec.Forgotten {
		b.heads[rec.Num] = pos
		return
	}
	b.forgotten[rec.ID] = forgottenRow{id: rec.ID, head: pos, seq: rec.Seq}
	b.freed[rec.Num] = pos
	if s.headLocked(rec.Num) != 0 {
		b.gone[rec.Num] = true
	}
	b.heads[rec.Num] = 0
}

// headLocked returns the offset of the latest event of a device, 0 for a device without a row.
func (s *Store) headLocked(num uint32) uint64 {
	if int(num) < len(s.heads) {
		return s.heads[num]
	}
	return 0
}

func (s *Store) setHeadLocked(num uint32, head uint64) {
	for int(num) >= len(s.heads) {
		s.heads = append(s.heads, 0)
	}
	s.heads[num] = head
}

// commitLocked applies a committed batch to the state in memory.
func (s *Store) commitLocked(b *batch) {
	for num, head := range b.heads {
		s.setHeadLocked(num, head)
	}
	for name := range b.sources {
		s.sources[name] = true
	}
	s.names.add(b.names)
	s.devices.Add(int64(len(b.fresh) - len(b.gone)))
	s.last.Store(b.first + uint64(len(b.events)) - 1)
}
