package liveness

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// UseMemory implements [keep.Registry].
func (r keeper) UseMemory(m keep.Memory) {
	state := wordsOf(m.Block(keep.BlockState, 0, 8))
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
	keep.Memory

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
	b := m.block(keep.BlockSource, uint32(s.index), 8*keep.SourceWords+len(s.name))
	if b == nil {
		return
	}
	copy(b[8*keep.SourceWords:], s.name)
	words := wordsOf(b[:8*keep.SourceWords])
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
	turns = turns[max(len(turns)-keep.TurnsInMemory, 0):]
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
	return m.block(keep.BlockTimers, t.source, size)
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
	if words := m.heardOf(d.num / keep.HeardPerBlock); words != nil {
		words[d.num%keep.HeardPerBlock].Store(uint64(keep.NewHeard(d.source.index, last)))
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
		all = append(all, wordsOf(m.block(keep.BlockHeard, uint32(len(all)), 8*keep.HeardPerBlock)))
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
