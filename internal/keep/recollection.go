package keep

import (
	"encoding/binary"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
	"github.com/holter-iot/holter/timer"
)

// Recollection is what was read from the memory of a process that was killed.
type Recollection struct {
	clocks  map[string]recalledClock
	indexes map[string]int   // the sources' indexes in that process
	names   map[int]string   // the reverse
	heard   map[uint32]Heard // by number of the device
	latest  map[int]Heard    // by index of the source
}

type recalledClock struct {
	listened time.Duration
	at       time.Time
	turns    []judgement.Turn // the latest of its course
}

// Recall reads what a process has left in its [Memory]. It returns false if that is incomplete. It
// accepts any content.
func Recall(blocks []Block) (*Recollection, bool) {
	c := &Recollection{
		clocks: make(map[string]recalledClock), indexes: make(map[string]int), names: make(map[int]string),
		heard: make(map[uint32]Heard), latest: make(map[int]Heard),
	}
	whole := false
	for _, b := range blocks {
		switch b.Kind {
		case BlockState:
			whole = len(b.Data) >= 8 && binary.NativeEndian.Uint64(b.Data) == 0
		case BlockSource:
			c.addSource(b)
		case BlockHeard:
			for i := 0; i+8 <= len(b.Data); i += 8 {
				c.add(b.Owner*HeardPerBlock+uint32(i/8), Heard(binary.NativeEndian.Uint64(b.Data[i:])))
			}
		}
	}
	for _, b := range blocks {
		if b.Kind == BlockTimers {
			for data, touched := range timer.Left(b.Data) {
				c.add(uint32(data>>32), NewHeard(int(b.Owner), touched))
			}
		}
	}
	return c, whole
}

func (c *Recollection) addSource(b Block) {
	if len(b.Data) < 8*SourceWords {
		return
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b.Data[8*i:]) }
	name := b.Data[8*SourceWords:]
	if n := word(2); n == 0 || n > uint64(len(name)) {
		return // the process was killed while it made the block
	}
	name = name[:word(2)]
	c.indexes[string(name)], c.names[int(b.Owner)] = int(b.Owner), string(name)
	clock := recalledClock{listened: time.Duration(word(0)), at: time.Unix(0, int64(word(1)))}
	for i := range min(word(3), TurnsInMemory) {
		clock.turns = append(clock.turns, judgement.Turn{Listened: time.Duration(word(4 + 2*int(i))), At: time.Unix(0, int64(word(5+2*int(i))))})
	}
	if clock.listened > 0 && clock.listened <= MaxListened {
		c.clocks[string(name)] = clock
	}
}

// add adds a heartbeat, unless a later one is known, or one at another source: the device is there.
func (c *Recollection) add(num uint32, h Heard) {
	if num == 0 || num > MaxNum || h == 0 {
		return
	}
	by := h.Source()
	if was := c.heard[num]; was == 0 || was.Source() == by {
		c.heard[num] = max(was, h)
	}
	c.latest[by] = max(c.latest[by], h)
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
	var way judgement.Course
	way.Restore(rec.Turns, rec.Listened, rec.At)
	reached := s.listened
	for _, t := range s.turns {
		known := t.Listened < rec.Listened || t.Listened == rec.Listened && !t.At.After(rec.At)
		if known || t.Listened > s.listened+stampAhead {
			continue
		}
		if gap := t.At.Sub(way.At(t.Listened)); len(way.Turns) > 0 && gap > judgement.DriftTolerance {
			rec.Deaf = append(rec.Deaf, judgement.DeafInterval{From: t.At.Add(-gap), To: t.At, Listened: t.Listened})
			rec.DeafTotal += gap
		}
		way.Turn(t.Listened, t.At)
		reached = max(reached, t.Listened)
	}
	if n := len(way.Turns); n == 0 || way.Turns[n-1].Listened <= s.listened {
		way.KeepUp(s.listened, s.at)
	}
	if latest := c.latest[c.indexes[rec.Name]].Last(); latest >= reached && latest <= reached+stampAhead {
		reached = latest + judgement.HeardTick // that heartbeat was answered, so the clock had come so far
	}
	rec.Listened, rec.At, rec.Turns = reached, way.At(reached), way.Turns
}

// Heard returns when the device with a number was heard last, and by which source; 0 and "" if that is
// not known.
func (c *Recollection) Heard(num uint32) (last time.Duration, by string) {
	h := c.heard[num]
	if by = c.names[h.Source()]; h == 0 || by == "" {
		return 0, ""
	}
	return h.Last(), by
}
