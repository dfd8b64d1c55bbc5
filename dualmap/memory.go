package dualmap

import (
	"encoding/binary"
	"iter"
	"sync/atomic"
	"unsafe"
)

// Memory is where a [Map] keeps its entries so that they outlive the process, for instance a shared
// mapping of a file.
type Memory interface {
	// Chunk returns size bytes, zeroed and aligned to eight, which are the map's for as long as the
	// process lives. It returns nil if there is no room: then the entries lie in the Go heap, and
	// end with the process. It is called with the lock held that guards the structure of the map.
	// Maps that share a memory call it concurrently.
	Chunk(size int) []byte
}

// ChunkBytes is the size of the blocks that a map asks its [Memory] for: a chunk of 512 slots.
const ChunkBytes = leavingsAt + 8*chunkLen

// A block is three columns, one after the other, of numbers in the byte order of the machine:
//
//	heads     512 × 16 bytes: generation and value (8 bytes; the value 0 says that the slot is vacant), parameter (4), and what means nothing to others
//	data      512 × 8 bytes
//	leavings  512 × 8 bytes: the last value of an entry that was removed and is not released yet, else of no meaning or 0
//
// A process may be killed between any two of its stores. Nothing of those before is lost, and
// nothing of those after has happened: an interrupt is precise on each thread, so what the weaker
// memory models let other cores see too late or too early is settled when the kernel has ended the
// threads. That leaves the order in which the program stores. An atomic store or swap comes after
// all that stands before it in the code; so
//   - Insert stores data and parameter before the word: a word with a value belongs to the data and the parameter beside it;
//   - Remove stores the last value before it takes the value out of the word, and Release clears it before another tenant can come: a
//     vacant word with a last value beside it belongs to the data and the parameter of the entry that was removed.
const (
	headsAt    = 0
	dataAt     = headsAt + headLen*chunkLen
	leavingsAt = dataAt + 8*chunkLen
)

// newChunk returns the heads of vacant slots, and their columns, in the memory if there is one with room.
func (m *Map) newChunk() (*[chunkLen]head, columns) {
	var c columns
	if m.positions {
		c.positions = new([chunkLen]uint32)
	}
	var block []byte
	if m.memory != nil {
		block = m.memory.Chunk(ChunkBytes)
		m.leavings = append(m.leavings, nil)
	}
	if block == nil {
		c.data = new([chunkLen]uint64)
		return new([chunkLen]head), c
	}
	if len(block) != ChunkBytes || uintptr(unsafe.Pointer(unsafe.SliceData(block)))%8 != 0 {
		panic("dualmap: a memory returned a chunk of another size, or one that is not aligned to eight")
	}
	c.data = (*[chunkLen]uint64)(unsafe.Pointer(&block[dataAt]))
	m.leavings[len(m.leavings)-1] = (*[chunkLen]atomic.Uint64)(unsafe.Pointer(&block[leavingsAt]))
	return (*[chunkLen]head)(unsafe.Pointer(&block[headsAt])), c
}

// paramAt is where the parameter lies in a head.
const paramAt = int(unsafe.Offsetof(head{}.param))

// leaving returns where the last value of a removed entry is stored, or nil if the slot is not in a
// memory.
func (m *Map) leaving(slot uint32) *atomic.Uint64 {
	if len(m.leavings) == 0 || m.leavings[slot>>chunkBits] == nil {
		return nil
	}
	return &m.leavings[slot>>chunkBits][slot&chunkMask]
}

// Entry is what a block holds of an entry.
type Entry struct {
	Value uint64 // 1 to MaxValue
	Data  uint64
	Param uint32
}

// Scan yields the entries in a block that a [Memory] gave to a map of a process that has ended
// since: those that had been inserted and not yet released, a removed one with its last value. It
// accepts any content and any length, but what it yields then means nothing. The block must not
// change meanwhile.
func Scan(block []byte) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if len(block) != ChunkBytes {
			return
		}
		long := func(at, i int) uint64 { return binary.NativeEndian.Uint64(block[at+8*i:]) }
		for i := range chunkLen {
			at := headsAt + headLen*i
			value := long(at, 0) & MaxValue
			if value == 0 {
				value = long(leavingsAt, i) & MaxValue
			}
			if value == 0 {
				continue
			}
			if !yield(Entry{Value: value, Data: long(dataAt, i), Param: binary.NativeEndian.Uint32(block[at+paramAt:])}) {
				return
			}
		}
	}
}
