package liveness

import (
	"encoding/binary"
	"time"

	"github.com/holter-iot/holter/timer"
)

// Block is a block of a [Memory] that another process has left.
type Block struct {
	Kind, Owner uint32
	Data        []byte
}

// Recollection is what was read from the memory of a process that was killed.
type Recollection struct {
	clocks  map[string]recalledClock
	indexes map[string]int // the sources' indexes in that process
	heard   map[recalledKey]Heard
	latest  map[uint16]Heard // by index of the source
}

type recalledClock struct {
	listened time.Duration
	at       time.Time
	turns    []turn // the latest of its course
}

type recalledKey struct {
	num    uint32
	source uint16
}

// Recall reads what a process has left in its [Memory]. It returns false if that is incomplete. It
// accepts any content.
func Recall(blocks []Block) (*Recollection, bool) {
	c := &Recollection{
		clocks: make(map[string]recalledClock), indexes: make(map[string]int), heard: make(map[recalledKey]Heard), latest: make(map[uint16]Heard),
	}
	whole := false
	for _, b := range blocks {
		switch b.Kind {
		case blockState:
			whole = len(b.Data) >= 8 && binary.NativeEndian.Uint64(b.Data) == 0
		case blockSource:
			c.addSource(b)
		case blockTimers:
			for data, touched := range timer.Left(b.Data) {
				c.add(uint32(data>>32), newHeard(int(b.Owner), touched))
			}
		case blockHeard:
			for i := 0; i+8 <= len(b.Data); i += 8 {
				c.add(b.Owner*heardPerBlock+uint32(i/8), Heard(binary.NativeEndian.Uint64(b.Data[i:])))
			}
		}
	}
	return c, whole
}

func (c *Recollection) addSource(b Block) {
	if len(b.Data) < 8*sourceWords {
		return
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b.Data[8*i:]) }
	name := b.Data[8*sourceWords:]
	if n := word(2); n == 0 || n > uint64(len(name)) {
		return // the process was killed while it made the block
	}
	name = name[:word(2)]
	c.indexes[string(name)] = int(b.Owner)
	clock := recalledClock{listened: time.Duration(word(0)), at: time.Unix(0, int64(word(1)))}
	for i := range min(word(3), turnsInMemory) {
		clock.turns = append(clock.turns, turn{time.Duration(word(4 + 2*int(i))), time.Unix(0, int64(word(5+2*int(i))))})
	}
	if clock.listened > 0 && clock.listened <= maxListened {
		c.clocks[string(name)] = clock
	}
}

// add adds a heartbeat, unless a later one at the same source is known.
func (c *Recollection) add(num uint32, h Heard) {
	if num == 0 || num > maxNum || h == 0 {
		return
	}
	key := recalledKey{num, uint16(h.Source())}
	c.heard[key] = max(c.heard[key], h)
	c.latest[key.source] = max(c.latest[key.source], h)
}

// stampAhead bounds by how much heartbeats may be stamped ahead of what is known of a clock. What
// is beyond is no heartbeat.
const stampAhead = time.Minute

// Source adds to a source's record what is known of it since. It does nothing if the record is
// newer.
func (c *Recollection) Source(rec *SourceRecord) {
	s, ok := c.clocks[rec.Name]
	if !ok || s.listened < rec.Listened {
		return
	}
	var way course
	way.restore(rec.Deaf, rec.Listened, rec.At)
	reached := s.listened
	for _, t := range s.turns {
		if t.listened <= rec.Listened || t.listened > s.listened+stampAhead {
			continue
		}
		if gap := t.wall.Sub(way.at(t.listened)); len(way.turns) > 0 && gap > driftTolerance {
			rec.Deaf = append(rec.Deaf, DeafInterval{From: t.wall.Add(-gap), To: t.wall, Listened: t.listened})
			rec.DeafTotal += gap
		}
		way.turn(t.listened, t.wall)
		reached = max(reached, t.listened)
	}
	if n := len(way.turns); n == 0 || way.turns[n-1].listened <= s.listened {
		way.keepUp(s.listened, s.at)
	}
	if latest := c.latest[uint16(c.indexes[rec.Name])].Last(); latest >= reached && latest <= reached+stampAhead {
		reached = latest + heardTick // that heartbeat was answered, so the clock had come so far
	}
	rec.Listened, rec.At = reached, way.at(reached)
}

// Heard returns when the device with a number was heard last by a source, 0 if that is not known.
func (c *Recollection) Heard(num uint32, source string) time.Duration {
	index, ok := c.indexes[source]
	if !ok {
		return 0
	}
	return c.heard[recalledKey{num, uint16(index)}].Last()
}
