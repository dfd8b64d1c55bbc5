package dualmap

import (
	"errors"
	"sync/atomic"
	"unsafe"
)

const (
	// ValueBits is the width of an entry's value. The value 0 says that a slot is vacant.
	ValueBits = 42
	// MaxValue is the largest value that an entry can hold.
	MaxValue = 1<<ValueBits - 1
	// GenerationBits is the width of a generation.
	GenerationBits = 64 - ValueBits
	// MaxGeneration is the generation of a slot's last tenant. The first has generation 1, so that
	// many tenants a slot has.
	MaxGeneration = 1<<GenerationBits - 1
	// SlotBytes is the memory of one slot, without the optional position column. Either that
	// column, or being vacant again after an entry, takes four bytes more; to lie in a [Memory]
	// eight.
	SlotBytes = headLen + 8

	chunkBits = 9
	chunkLen  = 1 << chunkBits
	chunkMask = chunkLen - 1

	maxSlots = 1<<32 - 1
)

// ErrFull is returned by [Map.Insert] when every slot that the map may have is taken.
var ErrFull = errors.New("dualmap: no free slot")

// Original identifies an entry for as long as it lives. The zero Original identifies none.
type Original struct {
	Slot       uint32
	Generation uint32
}

// Current identifies what an index holds of an entry; it dies when the slot is armed anew.
type Current struct {
	Slot   uint32
	Arming uint16
}

// Map is the slab. Make one with [New].
type Map struct {
	// By chunk, and replaced when the map grows; the arrays stay where they are. Those that a heartbeat looks
	// at are apart, so that the list of them lies in the nearest cache.
	heads   atomic.Pointer[[]*[chunkLen]head]
	columns atomic.Pointer[[]columns]

	capacity  uint32 // slots that the map may have
	used      uint32 // slots handed out at least once
	live      uint32
	retired   uint32
	free      freeQueue
	positions bool
	memory    Memory                     // or nil
	leavings  []*[chunkLen]atomic.Uint64 // by chunk, nil for one that is not in the memory; empty without a memory
}

// head is all that a heartbeat needs of a slot. Four share a cache line.
type head struct {
	word   atomic.Uint64 // generation and value
	param  atomic.Uint32
	arming uint16
}

// headLen is the length of a head, with what is added so that the next one is aligned.
const headLen = int(unsafe.Sizeof(head{}))

// columns have what no heartbeat needs of a chunk's slots.
type columns struct {
	data      *[chunkLen]uint64
	positions *[chunkLen]uint32 // nil unless asked for
}

// New returns an empty map of at most capacity slots. With positions each slot has a further column
// that an index can note its place in, see [Map.SetPosition]. With a memory that is not nil its
// entries outlive the process, see [Scan].
func New(capacity uint32, positions bool, memory Memory) *Map {
	m := &Map{capacity: min(capacity, maxSlots), positions: positions, memory: memory}
	m.heads.Store(new([]*[chunkLen]head))
	m.columns.Store(new([]columns))
	return m
}

// Insert takes a slot for an entry with a value of 1 to [MaxValue], data and a parameter. The slot
// is not armed.
func (m *Map) Insert(value, data uint64, param uint32) (Original, error) {
	var slot uint32
	switch {
	case !m.free.empty():
		slot = m.free.pop()
	case m.used < m.capacity:
		slot = m.used
		m.used++
		if slot&chunkMask == 0 {
			m.grow()
		}
	default:
		return Original{}, ErrFull
	}
	m.live++
	at := m.headOf(slot)
	generation := max(at.word.Load()>>ValueBits, 1) // 0: its first tenant; a retired slot does not come here
	m.columnsOf(slot).data[slot&chunkMask] = data
	at.param.Store(param)
	at.arming = 0
	at.word.Store(generation<<ValueBits | value)
	return Original{Slot: slot, Generation: uint32(generation)}, nil
}

// grow adds a chunk of vacant slots.
func (m *Map) grow() {
	h, c := m.newChunk()
	columns := append(*m.columns.Load(), c) // readers of the old list never look past its length
	m.columns.Store(&columns)
	heads := append(*m.heads.Load(), h) // last: who finds a head finds its columns
	m.heads.Store(&heads)
}

// Release gives back the slot of an entry that [Map.Remove] ended. Each removed entry must be
// released once.
func (m *Map) Release(slot uint32) {
	m.live--
	at := m.headOf(slot)
	at.arming = 0
	if l := m.leaving(slot); l != nil {
		l.Store(0)
	}
	if at.word.Load()>>ValueBits == 0 { // the last generation has lived here
		m.retired++
		return
	}
	m.free.push(slot)
}

// Load returns the value of an entry, and whether the entry lives.
func (m *Map) Load(o Original) (value uint64, ok bool) {
	c, ok := m.Cell(o)
	if !ok {
		return 0, false
	}
	return c.Load()
}

// Cell is where an entry is, for several accesses to it.
type Cell struct {
	head       *head
	generation uint64 // shifted to its place in the word
}

// Cell returns where an entry is, and whether there can be such an entry, which need not live. It
// stays there.
func (m *Map) Cell(o Original) (Cell, bool) {
	chunks := *m.heads.Load()
	if uint(o.Slot>>chunkBits) >= uint(len(chunks)) || o.Generation > MaxGeneration {
		return Cell{}, false
	}
	return Cell{&chunks[o.Slot>>chunkBits][o.Slot&chunkMask], uint64(o.Generation) << ValueBits}, true
}

// Load is [Map.Load] of the entry.
func (c Cell) Load() (value uint64, ok bool) {
	value = c.head.word.Load() ^ c.generation // too large if the generation is another
	return value, value-1 < MaxValue
}

// Param is [Map.Param] of the entry's slot.
func (c Cell) Param() uint32 { return c.head.param.Load() }

// CompareAndSwap is [Map.CompareAndSwap] of the entry.
func (c Cell) CompareAndSwap(old, next uint64) bool {
	return c.head.word.CompareAndSwap(c.generation|old, c.generation|next)
}

// Discard ends the entry whatever its value is, and reports whether it lived. Then the caller must
// [Map.Release] its slot. It is not for maps with a memory.
func (c Cell) Discard() bool {
	_, ok := c.discard()
	return ok
}

func (c Cell) discard() (last uint64, ok bool) {
	for {
		value, ok := c.Load()
		if !ok {
			return 0, false
		}
		if c.remove(value) {
			return value, true
		}
	}
}

// remove ends the entry if its value is still old.
func (c Cell) remove(old uint64) bool {
	return c.head.word.CompareAndSwap(c.generation|old, c.generation+1<<ValueBits) // wraps to 0: retired
}

// Prefetch reads the slot, so that it lies in the cache soon. Plain reads of several cells wait for
// memory together; the locked instruction of a swap lets no later read begin.
func (c Cell) Prefetch() { c.head.word.Load() }

// CompareAndSwap changes the value of a living entry from old to next and reports whether it did.
// Both are 1 to [MaxValue].
func (m *Map) CompareAndSwap(o Original, old, next uint64) bool {
	c, ok := m.Cell(o)
	return ok && c.CompareAndSwap(old, next)
}

// Remove ends an entry if its value is still old, 1 to [MaxValue], and reports whether it did. Then
// the caller must [Map.Release] its slot. On a map with a memory, Remove needs the lock.
func (m *Map) Remove(o Original, old uint64) bool {
	c, ok := m.Cell(o)
	if !ok {
		return false
	}
	if l := m.leaving(o.Slot); l != nil && c.head.word.Load() == c.generation|old { // else the slot is not this entry's
		l.Store(old)
	}
	return c.remove(old)
}

// Discard ends an entry whatever its value is. It returns the last one, and whether the entry lived;
// then the caller must [Map.Release] its slot. Unlike an entry that [Map.Remove] ended, [Scan] does
// not find it until then. On a map with a memory, Discard needs the lock.
func (m *Map) Discard(o Original) (last uint64, ok bool) {
	c, ok := m.Cell(o)
	if !ok {
		return 0, false
	}
	if l := m.leaving(o.Slot); l != nil { // of a Remove that failed
		if _, ok = c.Load(); !ok {
			return 0, false // the slot is not this entry's
		}
		l.Store(0)
	}
	return c.discard()
}

// Param returns the parameter of a slot, which belongs to its present or last tenant. A caller
// without the lock must find the entry alive afterwards to know that the parameter is the entry's
// own. The slot must have been handed out by [Map.Insert].
func (m *Map) Param(slot uint32) uint32 { return m.headOf(slot).param.Load() }

// SetParam changes the parameter of a slot.
func (m *Map) SetParam(slot, param uint32) { m.headOf(slot).param.Store(param) }

// Data returns the data of a slot, also after its removal and until the slot has another tenant.
func (m *Map) Data(slot uint32) uint64 { return m.columnsOf(slot).data[slot&chunkMask] }

// Tenant returns the entry that has a slot now and its value, which is 0 when the slot is vacant.
func (m *Map) Tenant(slot uint32) (o Original, value uint64) {
	word := m.headOf(slot).word.Load()
	return Original{Slot: slot, Generation: uint32(word >> ValueBits)}, word & MaxValue
}

// IsVacantSince reports whether an entry was the last that its slot had, and has ended.
func (m *Map) IsVacantSince(o Original) bool {
	return m.headOf(o.Slot).word.Load() == uint64(o.Generation+1)<<ValueBits
}

// Arm makes c the slot's current identifier, and every earlier one dead. The arming 0 leaves the
// slot with none. Two armings of one slot that an index holds at the same time should differ; if
// they are equal, both are current.
func (m *Map) Arm(c Current) { m.headOf(c.Slot).arming = c.Arming }

// IsCurrent reports whether c is the latest arming of its slot.
func (m *Map) IsCurrent(c Current) bool {
	return m.headOf(c.Slot).arming == c.Arming
}

// Position returns what [Map.SetPosition] stored last.
func (m *Map) Position(slot uint32) uint32 { return m.columnsOf(slot).positions[slot&chunkMask] }

// SetPosition stores where an index holds the slot. It panics if the map was made without
// positions.
func (m *Map) SetPosition(slot, position uint32) {
	m.columnsOf(slot).positions[slot&chunkMask] = position
}

// Len returns the number of entries, those that are removed and not yet released among them.
func (m *Map) Len() int { return int(m.live) }

// Slots returns how many slots have been handed out at least once; slots 0 to Slots()-1 exist.
func (m *Map) Slots() uint32 { return m.used }

// Retired returns the number of slots that have used up their generations.
func (m *Map) Retired() int { return int(m.retired) }

func (m *Map) headOf(slot uint32) *head { return &(*m.heads.Load())[slot>>chunkBits][slot&chunkMask] }

func (m *Map) columnsOf(slot uint32) *columns { return &(*m.columns.Load())[slot>>chunkBits] }
