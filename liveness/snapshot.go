package liveness

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// Snapshot implements [keep.Registry].
func (r keeper) Snapshot(into []keep.Heard) (sources []keep.SourceRecord, heard []keep.Heard) {
	r.learning.snapshot.Lock()
	defer r.learning.snapshot.Unlock()
	s := snapshot{registry: r.Registry}
	for i, src := range r.Sources() {
		rec := src.record()
		s.sources, s.broken = append(s.sources, rec), append(s.broken, src.deafness.Latest())
		if i == len(r.learning.listened) {
			r.learning.listened = append(r.learning.listened, rec.Listened)
		}
		s.passed = append(s.passed, rec.Listened-r.learning.listened[i])
		r.learning.listened[i] = rec.Listened
	}
	devices := r.numbers.bound() // more may come meanwhile; their first event holds what is known of them
	s.heard = slices.Grow(into[:0], devices)[:devices]
	clear(s.heard[min(len(into), devices):])
	r.learning.seen = slices.Grow(r.learning.seen[:0], devices/64+1)[:devices/64+1]
	clear(r.learning.seen)
	s.learns = r.learning.on.Load()
	r.each(s.takeDevice)
	for i := range s.heard {
		if r.learning.seen[i/64]>>(i%64)&1 == 0 {
			s.heard[i] = 0
		}
	}
	return s.sources, s.heard
}

// snapshot is one that is being taken.
type snapshot struct {
	registry *Registry
	sources  []keep.SourceRecord
	broken   []time.Duration // by source: the latest listening time at which it was deaf
	passed   []time.Duration // by source: the listening time that has passed since the snapshot before
	heard    []keep.Heard    // of the snapshot before, until take has come by
	learns   bool
}

// takeDevice takes the last heartbeat of a device.
func (s *snapshot) takeDevice(sh *deviceShard, d *device) {
	num := int(d.num)
	if !d.expected() || num >= len(s.heard) || d.source.index >= len(s.sources) { // it may have been added since
		return
	}
	last, listened := d.lastLocked(), s.sources[d.source.index].Listened
	before, now := s.heard[num], keep.NewHeard(d.source.index, min(last, listened))
	s.heard[num] = now
	s.registry.learning.seen[num/64] |= 1 << (num % 64)
	if s.learns {
		s.learn(sh, d, before, now, last > listened)
	}
}

// learn learns the gap between the heartbeats of two snapshots. It does not if there was more than
// one, or none, or if the device was seen ahead of the clock: its next gap would be measured wrongly, too.
func (s *snapshot) learn(sh *deviceShard, d *device, before, now keep.Heard, ahead bool) {
	h := sh.habit(d)
	if before == now {
		if d.touched && h.Limit() == 0 { // no gap was learned yet
			s.registry.limitLocked(sh, d, d.heldLocked().Timeout)
		}
		silence := s.sources[now.Source()].Listened - now.Last()
		soon := silence + min(s.passed[now.Source()], h.Limit()/2) // it may pass the limit before the next snapshot
		if d.touched && h.Limit() != 0 && soon > h.Limit() && silence > usual(h) {
			s.registry.watchLocked(d)
		}
		return
	}
	skip := h.Skips() || ahead || before == 0 || before.Source() != now.Source() || before.Last() <= s.broken[now.Source()]
	h.SetSkips(ahead)
	if gap := now.Last() - before.Last(); !skip && gap >= learnLeast && !d.quietLocked(before.Last(), now.Last()) && !d.maintainedSinceLocked(before.Last()) {
		s.registry.learnLocked(sh, d, gap)
	}
}

// watchLocked makes the next heartbeat of a device, which is silent for long, take the device's lock.
func (r *Registry) watchLocked(d *device) {
	f, known := d.conditionLocked()
	if !known {
		return
	}
	r.storeHeard(d, f.Last) // before the timer ends, which knows it until then
	touched, won := d.source.engine.Disarm(d.timer)
	if !won {
		return // it has just expired: its handler knows the last heartbeat
	}
	if touched > f.Last { // meanwhile
		f.Last = touched
		r.storeHeard(d, f.Last)
	}
	d.timer, d.touched, d.last = 0, false, f.Last
	d.marks |= watched
	r.armLocked(d, f, 0)
}

// expected reports whether heartbeats of the device are waited for.
func (d *device) expected() bool {
	return judgement.Condition{State: d.state}.Expected() && d.marks&forgotten == 0
}

// lastLocked returns when the device was heard last or, if its timer has just expired, a later
// instant at which it was not.
func (d *device) lastLocked() time.Duration {
	if !d.touched {
		return d.last
	}
	if last, known := d.source.engine.Touched(d.timer); known {
		return max(d.last, last)
	}
	f, _ := d.conditionLocked()
	if step, ok := f.Next(d.policyLocked(), 0); ok { // it was heard a period ago or earlier
		f.Last = max(f.Last, d.source.Now()-step.Period)
	}
	return f.Last
}

// record returns what must be kept of the source.
func (s *Source) record() keep.SourceRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	listened := s.Now()
	rec := keep.SourceRecord{Name: s.name, Listened: listened, At: s.wallLocked(listened)}
	if rec.At.IsZero() {
		rec.At = s.past
	}
	rec.Deaf, rec.Turns = slices.Clone(s.deaf), slices.Clone(s.course.Turns)
	rec.DeafTotal = s.deafTotal
	rec.Missed, rec.Blanked = time.Duration(s.missed.Load()), s.deafness.Blank()
	return rec
}
