package liveness

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/timer"
)

// Record is what must be kept of a device so that a registry can go on from there: its durable state as of its event Seq. It changes
// with events only; the heartbeats since are in a [Registry.Snapshot].
type Record struct {
	// Num is the device's number, from 1 on. Numbers are dense: that of a forgotten device is given to another.
	Num    uint32
	ID     string
	State  State         // never Unknown
	Reason Reason        // of an offline device
	Source string        // where it was heard last; empty if it never was
	Last   time.Duration // listening time of Source at the last sign of life
	Heard  time.Duration // for Restore: that of a later one which no event tells of; 0 if there was none
	Until  time.Duration // listening time: when a sleep ends, or when the verdict was due
	Since  time.Time     // when the state changed last, by a clock that is never set back, see [View]
	Seq    uint64
	Epoch  uint64
	// Announced is what the device's protocol announced, Own what [Registry.SetPolicy] set.
	Announced Policy
	Own       Policy
	Changes   []int64 // when it went offline or came back of late, by the clock of Since, Unix time in ns, oldest first
	Flapping  bool
	// Maintenance, what [Registry.SetMaintenance] set, and Forgotten: see the events of these names. Nothing is to be kept of a device that is
	// forgotten. Window: a maintenance window covers it, see [Registry.Cover].
	Maintenance bool
	Window      bool
	Forgotten   bool
}

// SourceRecord is what must be kept of a source.
type SourceRecord struct {
	Name      string
	Listened  time.Duration  // what its listening clock read
	At        time.Time      // when it did; zero if the source never listened
	Deaf      []DeafInterval // the latest, oldest first
	DeafTotal time.Duration
	Missed    time.Duration // for how long the process listened without the source, which was configured no more
	// Blank says that it is not known what was heard in the end: each device counts as heard at Listened, within the bounds of what gaps
	// may put a verdict off. A Snapshot leaves it false.
	Blank bool
	// Seq is that of the source's latest event that was kept. A Snapshot, which may be ahead of the sink, leaves it 0.
	Seq uint64
}

// GroupRecord is what must be kept of a group; all of it is in its latest event.
type GroupRecord struct {
	Name   string
	Seq    uint64
	Outage bool
	From   time.Time // see [Event]
}

const (
	// maxListened bounds listening time; the timers end soon after.
	maxListened = 16 * maxSpan
	// maxNum bounds the numbers of devices, so that one that is wrong does not take all memory.
	maxNum = 1 << 26
)

// heardTick is the unit of the instants at which devices were heard, that of the timers.
const heardTick = timer.Resolution

// heardAt returns an instant as it is kept as that of a heartbeat: it reads the same from a timer, an event and a snapshot.
func heardAt(now time.Duration) time.Duration { return (now + heardTick - 1).Truncate(heardTick) }

// Heard is a device's last sign of life: a source and its listening time in [timer.Resolution]. The zero Heard is none.
type Heard uint64

func newHeard(source int, last time.Duration) Heard {
	return Heard(uint64(source)<<48 | uint64(heardAt(last)/heardTick))
}

// Source returns the source's place among those of the same Snapshot.
func (h Heard) Source() int { return int(h >> 48) }

// Last returns the listening time.
func (h Heard) Last() time.Duration { return time.Duration(h&(1<<48-1)) * heardTick }

// snapshotStride is after how many devices Snapshot lets go of a shard's lock.
const snapshotStride = 512

// Snapshot takes a picture of the listening clocks, and then of the last signs of life, by device number; those of devices that are not
// waited for are 0. It uses the memory of into if it suffices. It costs a cache line or two per device, and holds no lock for long;
// heartbeats go on.
func (r *Registry) Snapshot(into []Heard) (sources []SourceRecord, heard []Heard) {
	for _, s := range r.Sources() {
		sources = append(sources, s.record())
	}
	devices := r.nums.len() // more may come meanwhile; their first event holds what is known of them
	heard = slices.Grow(into[:0], devices)[:devices]
	clear(heard)
	for i := range r.shards {
		r.eachLocked(i, func(_ *deviceShard, d *device) {
			if d.expected() && int(d.num) < len(heard) && d.source.index < len(sources) { // it may have been added since
				heard[d.num] = newHeard(d.source.index, d.lastLocked())
			}
		})
	}
	return sources, heard
}

// expected says whether the device is to be heard.
func (d *device) expected() bool { return facts{state: d.state}.expected() && !d.gone }

// lastLocked returns when the device was heard last, or, if its timer has just expired, a later instant at which it was not.
func (d *device) lastLocked() time.Duration {
	f, known := d.factsLocked()
	if step, ok := f.next(d.policyLocked(), 0); !known && ok { // it was heard a period ago, or before
		f.last = max(f.last, d.source.Now()-step.period)
	}
	return f.last
}

// RestoreSource gives a source its past: its clock goes on where it was, and all that passed since At was deaf. The source may have
// been added or not; if it never is, it stays deaf, and the devices that it heard are unknown. Call it before the source's first pulse and
// before the devices are restored.
func (r *Registry) RestoreSource(rec SourceRecord) error {
	if rec.Listened < 0 || rec.Listened > maxListened {
		return fmt.Errorf("liveness: source %q: a listening time of %v", rec.Name, rec.Listened)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sourceLocked(rec.Name)
	if s == nil {
		cfg, err := SourceConfig{Name: rec.Name}.withDefaults()
		if err != nil {
			return err
		}
		if s, err = r.addSourceLocked(cfg); err != nil {
			return err
		}
		s.absent.Store(true)
	}
	return s.restore(rec)
}

// restore gives the source its past.
func (s *Source) restore(rec SourceRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.Load() != nil {
		return fmt.Errorf("liveness: source %q listens already", s.name)
	}
	s.seq, s.past = rec.Seq, rec.At
	s.deaf = append(s.deaf[:0], rec.Deaf[max(len(rec.Deaf)-deafKept, 0):]...)
	s.deafTotal = rec.DeafTotal
	listened := max(rec.Listened, 1) // so that all was heard before, even if there never was a checkpoint
	s.clock.Set(listened)
	if rec.Blank {
		s.gaps.addBlank(listened)
	} else {
		s.gaps.addCut(listened)
	}
	s.course.restore(s.deaf, listened, rec.At)
	s.missed.Store(int64(rec.Missed))
	for i := range s.marks {
		s.marks[i] = listened
	}
	return nil
}

// record returns what to keep of the source.
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
	rec.Missed = time.Duration(s.missed.Load())
	return rec
}

// RestoreGroup gives a group its past; a group that is not configured has none. Call it before the devices are restored.
func (r *Registry) RestoreGroup(rec GroupRecord) {
	for _, g := range r.groups {
		if g.Name == rec.Name {
			g.restore(rec)
		}
	}
}

func (g *group) restore(rec GroupRecord) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seq, g.outage, g.from = rec.Seq, rec.Outage, rec.From.UnixNano()
}

// restoreDevice counts a device that was kept.
func (g *group) restoreDevice(st standing, since, now int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turnLocked(now)
	g.countLocked(1, st, since)
}

// RestoreForgotten says that a device was forgotten, and the number of its last event: should it come back, its events' numbers go on from there.
// Where those of some devices are not kept, the greatest of their numbers is to be given with an empty id: devices that are new go on from that.
// Call it before the devices are restored.
func (r *Registry) RestoreForgotten(id string, seq uint64) {
	if id == "" {
		r.raiseFloor(seq)
		return
	}
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if d := sh.findLocked(id, hash); d != nil { // it is configured
		d.seq = max(d.seq, seq)
		return
	}
	r.endLocked(sh, id, max(seq, sh.ended[id]))
}

// Of the devices that are due at once after a restart, dueBatch are judged every dueEvery.
const (
	dueBatch = 1000
	dueEvery = 50 * time.Millisecond
)

// Restore makes a device that was kept, as it was; one that is not offline is unknown until it is heard or judged, for which it has the
// reconnect grace. Heard is to be that of the latest [Registry.Snapshot], or of a [Recollection], if it is of the same source and later. The source must have
// been restored, and not listen yet. May be called concurrently. Errors: a record that cannot be, an id or a number that is taken,
// [ErrFull].
func (r *Registry) Restore(rec Record) error {
	if err := rec.validate(); err != nil {
		return err
	}
	source := r.source(rec.Source)
	if source == nil && rec.State != NeverSeen {
		return fmt.Errorf("liveness: device %q: there is no source %q", rec.ID, rec.Source)
	}
	sh, hash := r.shardOf(rec.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d := sh.findLocked(rec.ID, hash)
	if d != nil && d.num != 0 {
		return fmt.Errorf("liveness: device %q was restored already", rec.ID)
	}
	if !r.nums.claim(rec.Num) {
		return fmt.Errorf("liveness: device %q: its number %d is that of another", rec.ID, rec.Num)
	}
	if d == nil {
		var err error
		if d, err = r.addLocked(sh, rec.ID, hash); err != nil {
			r.nums.give(rec.Num)
			return err
		}
	}
	if rec.Own != (Policy{}) {
		sh.setOwnLocked(d.id, rec.Own)
	}
	r.reviveLocked(sh, d, &rec, source)
	return nil
}

func (rec *Record) validate() error {
	err := errors.Join(ValidateID(rec.ID), rec.Announced.validate(), rec.Own.validate())
	switch {
	case err != nil:
	case rec.State >= Unknown || int(rec.Reason) >= reasons:
		err = fmt.Errorf("state %d, reason %d", rec.State, rec.Reason)
	case rec.Last < 0 || rec.Last > maxListened || rec.Heard < 0 || rec.Heard > maxListened || rec.Until < 0 || rec.Until > maxListened+maxSpan:
		err = fmt.Errorf("listening times %v, %v", rec.Last, rec.Until)
	case len(rec.Changes) > maxThreshold:
		err = fmt.Errorf("%d changes", len(rec.Changes))
	case rec.Num == 0 || rec.Num > maxNum:
		err = fmt.Errorf("number %d", rec.Num)
	}
	if err != nil {
		return fmt.Errorf("liveness: restore device %q: %w", rec.ID, err)
	}
	return nil
}

// reviveLocked gives a new device its past.
func (r *Registry) reviveLocked(sh *deviceShard, d *device, rec *Record, source *Source) {
	d.num, d.seq, d.epoch = rec.Num, rec.Seq, rec.Epoch
	d.source, d.marks = source, marksOf(rec)
	if !rec.Since.IsZero() { // else it is that of its making
		d.since = r.clock.restored(rec.Since.UnixNano())
	}
	d.rule = r.resolveLocked(sh, d.id, rec.Announced)
	d.state, d.reason, d.until = rec.State, rec.Reason, rec.Until
	if source != nil {
		d.last = max(min(max(rec.Last, rec.Heard), source.Now()-1), 0) // what came after the checkpoint came before it listens again
	}
	if len(rec.Changes) > 0 || rec.Flapping {
		d.changes = &changes{at: slices.Clone(rec.Changes[max(len(rec.Changes)-r.flapping.Threshold, 0):]), flapping: rec.Flapping}
		for i, at := range d.changes.at {
			d.changes.at[i] = r.clock.restored(at)
		}
		r.flaps.set(d.handle, rec.Flapping)
	}
	sh.counts[NeverSeen]--
	sh.counts[d.state]++
	d.countLocked(1)
	if g := d.rule.Value().group; g != nil {
		g.restoreDevice(d.standing(), d.since, r.clock.steady())
	}
	if source == nil {
		return
	}
	f, _ := d.factsLocked()
	r.keepHeard(d, f.last)
	if rec.Heard > rec.Last+heardTick && d.state != Online { // it was about to come online when the process died
		r.setLocked(sh, d, f.heard(f.last), f.last)
		return
	}
	p := d.policyLocked()
	notBefore := d.notBeforeLocked(f, p)
	spread := time.Duration(0)
	if at, _ := f.verdict(p, notBefore); at == notBefore && d.expected() {
		spread = time.Duration((r.due.Add(1)-1)/dueBatch)*dueEvery + max(source.Now()-at, 0)
	}
	r.armLocked(d, f, spread)
}
