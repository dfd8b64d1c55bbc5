package liveness

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/timer"
)

// heardTick is the unit of the instants at which devices were heard, that of the timers.
const heardTick = timer.Resolution

// roundHeard rounds an instant as that of a heartbeat is kept, so that it reads the same from a
// timer, an event and a snapshot.
func roundHeard(now time.Duration) time.Duration { return (now + heardTick - 1).Truncate(heardTick) }

// Heard is a device's last heartbeat: a source and its listening time in [timer.Resolution]. The
// zero Heard is none.
type Heard uint64

func newHeard(source int, last time.Duration) Heard {
	return Heard(uint64(source)<<48 | uint64(roundHeard(last)/heardTick))
}

// Source returns the source's position among those of the same Snapshot.
func (h Heard) Source() int { return int(h >> 48) }

// Last returns the listening time.
func (h Heard) Last() time.Duration { return time.Duration(h&(1<<48-1)) * heardTick }

// Snapshot returns the listening clocks, and then the last heartbeats, by device number; those of
// devices that are not waited for are 0. None is later than its source's clock: who restores them goes
// on from there, and would take a later one for a heartbeat that came after what the device says then.
// It uses the memory of into if it suffices. It costs a cache line or two per device, and holds no lock
// for long; heartbeats go on.
func (r *Registry) Snapshot(into []Heard) (sources []SourceRecord, heard []Heard) {
	for _, s := range r.Sources() {
		sources = append(sources, s.record())
	}
	devices := r.numbers.bound() // more may come meanwhile; their first event holds what is known of them
	heard = slices.Grow(into[:0], devices)[:devices]
	clear(heard)
	r.each(func(_ *deviceShard, d *device) {
		if d.expected() && int(d.num) < len(heard) && d.source.index < len(sources) { // it may have been added since
			heard[d.num] = newHeard(d.source.index, min(d.lastLocked(), sources[d.source.index].Listened))
		}
	})
	return sources, heard
}

// expected reports whether heartbeats of the device are waited for.
func (d *device) expected() bool { return condition{state: d.state}.expected() && !d.gone }

// lastLocked returns when the device was heard last or, if its timer has just expired, a later
// instant at which it was not.
func (d *device) lastLocked() time.Duration {
	f, known := d.conditionLocked()
	if step, ok := f.next(d.policyLocked(), 0); !known && ok { // it was heard a period ago or earlier
		f.last = max(f.last, d.source.Now()-step.period)
	}
	return f.last
}

// record returns what must be kept of the source.
func (s *Source) record() SourceRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	listened := s.Now()
	rec := SourceRecord{Name: s.name, Listened: listened, At: s.wallLocked(listened)}
	if rec.At.IsZero() {
		rec.At = s.past
	}
	rec.Deaf = slices.Clone(s.deaf)
	rec.DeafTotal = s.deafTotal
	rec.Missed, rec.Blanked = time.Duration(s.missed.Load()), time.Duration(s.gaps.blank.Load())
	return rec
}
