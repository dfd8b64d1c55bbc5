package liveness

import (
	"time"

	"github.com/holter-iot/holter/internal/keep"
)

// sighting is when a device was heard last. It is kept of one that was not heard for so long that turns of its source's clock were merged
// since.
type sighting struct {
	last time.Duration // the listening time
	at   int64         // in ns by the wall clock, less course.moved
}

// sightedLocked returns when the device was heard last, less course.moved, if that is kept.
func (d *device) sightedLocked(last time.Duration) (at int64, ok bool) {
	if d.marks&sighted == 0 {
		return 0, false
	}
	kept := d.source.registry.shards[d.handle%shardCount].sightings[d.handle]
	return kept.at, kept.last == last // otherwise it was heard since
}

// seenLocked returns the instant of the device's last sign of life, which is at a listening time. The source must be locked, too.
func (d *device) seenLocked(last time.Duration) time.Time {
	if at, ok := d.sightedLocked(last); ok {
		return time.Unix(0, at).Add(d.source.course.Moved)
	}
	return d.source.wallLocked(last)
}

// keepSightings keeps when the devices of the source were heard last, but for those that were heard lately, if turns of its clock are to be
// merged. Then it merges them.
func (s *Source) keepSightings() {
	s.mu.Lock()
	before, crowded := s.course.Crowded()
	s.mu.Unlock()
	if !crowded {
		return
	}
	s.registry.each(func(sh *deviceShard, d *device) {
		if d.source != s {
			return
		}
		if f, known := d.conditionLocked(); known && f.Last < before {
			s.mu.Lock()
			defer s.mu.Unlock()
			sh.sightLocked(d, f.Last, s.wallLocked(f.Last))
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.course.Kept = max(s.course.Kept, before)
	s.course.Merge()
}

// sightLocked keeps an instant as that of the device's last sign of life, unless one is kept. The source must be locked, too.
func (sh *deviceShard) sightLocked(d *device, last time.Duration, at time.Time) {
	if _, ok := d.sightedLocked(last); ok {
		return
	}
	if sh.sightings == nil {
		sh.sightings = make(map[uint32]sighting)
	}
	sh.sightings[d.handle] = sighting{last, at.Add(-d.source.course.Moved).UnixNano()}
	d.marks |= sighted
}

// endSightingLocked drops what is kept, once the device is heard again.
func (sh *deviceShard) endSightingLocked(d *device) {
	dropLocked(&sh.sightings, d, sighted)
}

// reviveSightingLocked keeps when a restored device was heard last, if the clock's course does not say.
func (s *Source) reviveSightingLocked(sh *deviceShard, d *device, rec *keep.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.last == rec.Last && !rec.Seen.IsZero() && !s.course.Knows(d.last) {
		sh.sightLocked(d, d.last, rec.Seen)
	}
}
