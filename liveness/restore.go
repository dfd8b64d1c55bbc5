package liveness

import (
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// RestoreSource implements [keep.Registry].
func (r keeper) RestoreSource(rec keep.SourceRecord) error {
	if rec.Listened < 0 || rec.Listened > keep.MaxListened {
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
		s.stands.Store(uint32(absent))
	}
	return s.restore(rec)
}

// restore restores the source.
func (s *Source) restore(rec keep.SourceRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.Load() != nil {
		return fmt.Errorf("liveness: source %q listens already", s.name)
	}
	s.seq, s.past = rec.Seq, rec.At
	s.deaf = append(s.deaf[:0], rec.Deaf[max(len(rec.Deaf)-deafKept, 0):]...)
	s.deafTotal = rec.DeafTotal
	listened := max(rec.Listened, 1) // later than all heartbeats, even without any checkpoint
	s.clock.Set(listened)
	s.deafness.RestoreBlank(min(rec.Blanked, listened))
	if rec.Blank {
		s.deafness.AddBlank(listened)
	} else {
		s.deafness.AddCut(listened)
	}
	s.course.Restore(rec.Turns, listened, rec.At)
	s.missed.Store(int64(rec.Missed))
	return nil
}

// RestoreGroup implements [keep.Registry].
func (r keeper) RestoreGroup(rec keep.GroupRecord) {
	for _, g := range r.rules.Load().groups {
		if g.Name == rec.Name {
			g.restore(rec)
			return
		}
	}
	r.reform.mu.Lock()
	defer r.reform.mu.Unlock()
	if r.reform.past == nil {
		r.reform.past = make(map[string]keep.GroupRecord)
	}
	r.reform.past[rec.Name] = rec
}

func (g *group) restore(rec keep.GroupRecord) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seq, g.counts.On, g.counts.From = rec.Seq, rec.Outage, rec.From.UnixNano()
}

// count adds n devices of a standing to counts that are not weighed yet.
func (g *group) count(n int, st judgement.Standing, since, now int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts.Turn(now)
	g.counts.Count(n, st, since)
}

// RestoreForgotten implements [keep.Registry].
func (r keeper) RestoreForgotten(id string, seq uint64) {
	if id == "" {
		r.raiseFloor(seq)
		return
	}
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if d := sh.index.find(hash, id); d != nil { // a configured device
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

// Restore implements [keep.Registry].
func (r keeper) Restore(rec keep.Record) error {
	if err := validateRecord(&rec, &r.calendars); err != nil {
		return err
	}
	source := r.moved(&rec)
	if source == nil && rec.State != NeverSeen {
		return fmt.Errorf("liveness: device %q: there is no source %q", rec.ID, rec.Source)
	}
	sh, hash := r.shardOf(rec.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d := sh.index.find(hash, rec.ID)
	if d != nil && d.num != 0 {
		return fmt.Errorf("liveness: device %q was restored already", rec.ID)
	}
	if !r.numbers.claim(rec.Num) {
		return fmt.Errorf("liveness: device %q: its number %d is that of another", rec.ID, rec.Num)
	}
	if d == nil {
		var err error
		if d, err = r.addLocked(sh, rec.ID, hash, nil); err != nil {
			r.numbers.release(rec.Num)
			return err
		}
	}
	if rec.Own != (Policy{}) {
		sh.setOwnLocked(d.id, rec.Own)
	}
	r.reviveLocked(sh, d, &rec, source)
	return nil
}

// moved returns the source at which a device was heard last, and makes the record one of it: a move
// within a pool is no event of a device that is online.
func (r *Registry) moved(rec *keep.Record) *Source {
	of, by := r.source(rec.Source), r.source(rec.HeardBy)
	if by == of || of == nil || by == nil {
		return of
	}
	if rec.State != Online || !by.wall(rec.Heard).After(of.wall(rec.Last)) {
		rec.Heard = 0
		return of
	}
	rec.Source, rec.Last, rec.Seen = rec.HeardBy, rec.Heard, time.Time{}
	return by
}

// decided returns the listening time at which a device's state followed from its silence: heartbeats
// that changed it are later. A checkpoint that was made while that was under way may say of the device
// that it was heard a little later than it was, see [device.lastLocked].
func decided(rec *keep.Record, p Policy) time.Duration {
	switch rec.State {
	case Offline:
		return rec.Until
	case Late:
		return rec.Last + p.LateAfter
	case NeverSeen, Online, Sleeping, Unknown, Suspect, Pending:
	}
	return 0
}

// reviveLocked gives a new device the state of a record.
func (r *Registry) reviveLocked(sh *deviceShard, d *device, rec *keep.Record, source *Source) {
	d.num, d.seq, d.epoch = rec.Num, rec.Seq, rec.Epoch
	d.source, d.marks = source, marksOf(rec)
	if q := r.quotaNamed(rec.Quota); q != nil {
		d.quota = q.index
		q.devices.Add(1) // also beyond its limit
	}
	if !rec.Since.IsZero() { // otherwise it is when the device was made
		d.since = r.clock.restored(rec.Since.UnixNano())
	}
	if !rec.Started.IsZero() {
		sh.startLocked(d, r.clock.restored(rec.Started.UnixNano()))
	}
	d.rule = r.resolveLocked(sh, d.id, rec.Announced)
	r.reviveHabitLocked(sh, d, rec)
	d.state, d.reason, d.until = rec.State, rec.Reason, rec.Until
	if rec.Heard < decided(rec, d.rule.Value().Policy) {
		rec.Heard = 0
	}
	if source != nil {
		d.last = max(rec.Last, rec.Heard)
		switch known := max(source.Now()-1, 0); {
		case d.last <= known:
		case d.state == Sleeping, d.state == Offline:
			d.marks |= toldSince
		default: // what was heard after the checkpoint was heard before the source listens again
			d.last = known
		}
	}
	if len(rec.Changes) > 0 || rec.Flapping {
		d.changes = &changes{at: slices.Clone(rec.Changes[max(len(rec.Changes)-r.rules.Load().flapping.Threshold, 0):]), flapping: rec.Flapping}
		for i, at := range d.changes.at {
			d.changes.at[i] = r.clock.restored(at)
		}
		r.flaps.set(d.handle, rec.Flapping)
	}
	sh.counts[NeverSeen]--
	sh.counts[d.state]++
	d.countLocked(1)
	if g := d.rule.Value().group; g != nil {
		g.count(1, d.standing(), d.since, r.clock.steady())
	}
	if source == nil {
		return
	}
	source.reviveSightingLocked(sh, d, rec)
	f, _ := d.conditionLocked()
	sh.reviveVerdictLocked(d, f, rec)
	r.storeHeard(d, f.Last)
	if rec.Heard > rec.Last+judgement.HeardTick && d.state != Online { // it was about to come online when the process died
		if next := f.Heard(f.Last, d.policyLocked()); next.State != Offline { // a count of heartbeats begins anew
			r.setLocked(sh, d, f, next, f.Last)
			return
		}
	}
	o := d.outlookLocked(f)
	spread := time.Duration(0)
	if at, _ := f.Verdict(o.Policy, o.NotBefore); at == o.NotBefore && d.expected() {
		spread = time.Duration((r.due.Add(1)-1)/dueBatch)*dueEvery + max(source.Now()-at, 0)
	}
	r.armLocked(d, f, spread)
}
