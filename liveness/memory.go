package liveness

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/liveness/judgement"
)

// Memory is memory that outlives the process. After the process was killed [Recall] finds in it
// what a registry has written.
type Memory interface {
	// Block returns size bytes, zeroed and aligned to eight, that are the caller's for as long as
	// the process lives. Recall must get them with the same kind and owner. Block returns nil if
	// there is no room. It may be called concurrently.
	Block(kind, owner uint32, size int) []byte
}

// The kinds of blocks, and what their owner is.
const (
	blockState  uint32 = iota + 1 // one word: not 0 if there was no room for some block
	blockSource                   // index of the source: see sourceWords, its name
	blockTimers                   // index of the source: a chunk of its timers, whose data are device numbers and handles
	blockHeard                    // number of the first device, by heardPerBlock: their last signs of life that took the long way
)

const (
	heardPerBlock = 1 << 13
	// sourceWords is how many words a source has: its clock's reading, the wall time then, the
	// length of its name, and the latest turns of its course: how many there are, 0 while they are
	// written, and their listening and wall times.
	sourceWords = 4 + 2*turnsInMemory
	// turnsInMemory is how many turns are written. There are hardly ever more between two
	// checkpoints.
	turnsInMemory = 16
)

// UseMemory makes the registry write its listening clocks, and when each device was heard last, to
// memory that outlives the process. Call it before sources listen and before devices are restored.
// A heartbeat costs no more than without: its one atomic update is in that memory.
func (r *Registry) UseMemory(m Memory) {
	state := wordsOf(m.Block(blockState, 0, 8))
	if state == nil {
		return
	}
	r.memory.Store(&memory{Memory: m, state: state})
	for _, s := range r.Sources() {
		r.keepSource(s)
	}
}

// memory is a Memory in use.
type memory struct {
	Memory

	state []atomic.Uint64

	mu    sync.Mutex // guards the growing of heard; taken after a device shard's
	heard atomic.Pointer[[][]atomic.Uint64]
}

// block returns a block. If there is no room it returns nil, and records that the memory is
// incomplete.
func (m *memory) block(kind, owner uint32, size int) []byte {
	b := m.Memory.Block(kind, owner, size)
	if b == nil {
		m.state[0].Store(1)
	}
	return b
}

// keepSource gives a source a block for its clock.
func (r *Registry) keepSource(s *Source) {
	m := r.memory.Load()
	if m == nil {
		return
	}
	b := m.block(blockSource, uint32(s.index), 8*sourceWords+len(s.name))
	if b == nil {
		return
	}
	copy(b[8*sourceWords:], s.name)
	words := wordsOf(b[:8*sourceWords])
	words[2].Store(uint64(len(s.name)))
	s.kept.Store(&words)
}

// keepLocked writes what the clock reads.
func (s *Source) keepLocked(listened time.Duration) { s.keepReading(listened, &s.course) }

// keepReading writes what the clock reads, if that is an instant of a course.
func (s *Source) keepReading(listened time.Duration, of *judgement.Course) {
	words := s.kept.Load()
	if words == nil {
		return
	}
	if at := of.At(listened); !at.IsZero() {
		(*words)[1].Store(uint64(at.UnixNano()))
		(*words)[0].Store(uint64(listened)) // it counts from here on
	}
}

// keepCourseLocked writes the latest turns of a course, with the reading without which they do not count, if
// there is a new one. It must come before a heartbeat is stamped with a listening time after that turn, which
// is another wall time.
func (s *Source) keepCourseLocked(c *judgement.Course) {
	words, turns := s.kept.Load(), c.Turns
	if words == nil || len(turns) == 0 || turns[len(turns)-1] == s.keptTurn {
		return
	}
	s.keepReading(s.Now(), c)
	turns = turns[max(len(turns)-turnsInMemory, 0):]
	s.keptTurn = turns[len(turns)-1]
	(*words)[3].Store(0)
	for i, t := range turns {
		(*words)[4+2*i].Store(uint64(t.Listened))
		(*words)[5+2*i].Store(uint64(t.At.UnixNano()))
	}
	(*words)[3].Store(uint64(len(turns)))
}

// timerMemory is the memory of a source's timers.
type timerMemory struct {
	registry *Registry
	source   uint32
}

// Chunk implements dualmap.Memory.
func (t timerMemory) Chunk(size int) []byte {
	m := t.registry.memory.Load()
	if m == nil {
		return nil
	}
	return m.block(blockTimers, t.source, size)
}

// timerData returns what a device's timer carries.
func (d *device) timerData() uint64 { return uint64(d.num)<<32 | uint64(d.handle) }

// storeHeard writes when the device was heard last, for when no timer knows. The device's shard
// must be locked.
func (r *Registry) storeHeard(d *device, last time.Duration) {
	m := r.memory.Load()
	if m == nil || d.num == 0 || d.source == nil {
		return
	}
	if words := m.heardOf(d.num / heardPerBlock); words != nil {
		words[d.num%heardPerBlock].Store(uint64(newHeard(d.source.index, last)))
	}
}

// heardOf returns a block of last heartbeats, nil if there is no room for it.
func (m *memory) heardOf(block uint32) []atomic.Uint64 {
	if all := m.heard.Load(); all != nil && int(block) < len(*all) {
		return (*all)[block]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all [][]atomic.Uint64
	if old := m.heard.Load(); old != nil {
		all = append(all, *old...)
	}
	for len(all) <= int(block) {
		all = append(all, wordsOf(m.block(blockHeard, uint32(len(all)), 8*heardPerBlock)))
	}
	m.heard.Store(&all)
	return all[block]
}

// wordsOf returns a block as words.
func wordsOf(b []byte) []atomic.Uint64 {
	if len(b) < 8 {
		return nil
	}
	return unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}
