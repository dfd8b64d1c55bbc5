package liveness

import (
	"fmt"
	"time"
)

// View is a picture of a device, with all that its state follows from.
type View struct {
	ID        string
	State     State
	Decided   State  // of a Pending device: its state once that is committed
	Reason    Reason // of an offline device
	Closing   Reason // why it goes offline unless it comes back, if its connection ended; otherwise NoReason
	Connected bool
	Seq       uint64 // of its latest event that the sink has taken
	Epoch     uint64
	// Since is when the state changed last. It is kept in steady time, and shown by the wall clock
	// as it is set now.
	Since    time.Time
	Policy   Policy
	From     string // the rule that Policy.Timeout is from
	Group    string
	Flapping bool
	// Maintenance: its verdicts are not to raise an alarm. Window: a maintenance window covers it.
	// Own: it has a policy that was set at run time.
	Maintenance, Window, Own bool

	// The fields below are zero for a device that was never seen.

	Source   string
	LastSeen time.Time // the last heartbeat
	Deadline time.Time // of the verdict, if nothing is heard and the source goes on listening; zero if there is none to come
	// Last and Now are the source's listening time at the last heartbeat and now; HeardSilence is
	// the difference.
	Last, Now    time.Duration
	HeardSilence time.Duration
	// Deaf are the intervals after the last heartbeat for which the source was deaf; they do not
	// count.
	Deaf []DeafInterval
	// NotBefore is the listening time before which the device is not judged, because its source was
	// deaf, or a maintenance window suppresses its silence; 0 if neither is so.
	NotBefore time.Duration
	// Suppressed: NotBefore may follow from a maintenance window.
	Suppressed bool
	// Grace is the device's reconnect grace. All gaps since its last heartbeat together put its
	// verdict off by GraceMax at most, of which GraceUsed has passed.
	Grace, GraceMax, GraceUsed time.Duration
	Sleep                      time.Time // when its sleep ends, if it sleeps
	// Asked is how often the device was probed since it was heard last, AskedAt when last.
	Asked   int
	AskedAt time.Time
}

// Device returns a picture of a device. Errors: ErrUnknownDevice.
func (r *Registry) Device(id string) (View, error) {
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d := sh.findLocked(id, hash)
	if d == nil {
		return View{}, fmt.Errorf("%w: %q", ErrUnknownDevice, id)
	}
	return r.viewLocked(d), nil
}

// Known reports whether a device was seen or configured. It is O(1).
func (r *Registry) Known(id string) bool {
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.findLocked(id, hash) != nil
}

func (r *Registry) viewLocked(d *device) View {
	f, _ := d.conditionLocked()
	f.last = d.lastLocked()
	rule := d.rule.Value()
	v := View{
		ID: d.id, State: d.stateLocked(), Connected: d.session != nil, Seq: d.seq - uint64(d.uncommitted), Epoch: d.epoch,
		Since: r.clock.wall(d.since), Policy: rule.Policy, From: rule.from,
		Flapping: d.changes != nil && d.changes.flapping, Maintenance: d.maintained(), Window: d.marks&byWindow != 0, Own: rule.own,
	}
	if rule.group != nil {
		v.Group = rule.group.Name
	}
	if d.source != nil {
		d.timesLocked(&v, f, d.policyLocked())
	}
	if v.State == Pending {
		v.Decided = d.state
	}
	return v
}

// timesLocked fills in what follows from the source's clock.
func (d *device) timesLocked(v *View, f condition, p Policy) {
	s := d.source
	v.Source, v.Last = s.name, f.last
	v.Now = max(s.Now(), f.last)
	v.HeardSilence = v.Now - f.last
	s.mu.Lock()
	defer s.mu.Unlock()
	v.LastSeen = s.wallLocked(f.last)
	v.Deaf = s.deafSinceLocked(f.last)
	switch f.state {
	case Offline:
		v.Reason = f.reason
		return
	case Sleeping:
		v.Sleep = s.wallLocked(f.until)
	case NeverSeen, Online, Late, Unknown, Suspect, Pending:
	}
	if f.suspect() {
		v.Asked, v.AskedAt = int(f.asked), s.wallLocked(f.until)
	}
	v.Closing = f.reason
	if f.awaited(p) {
		v.NotBefore = d.notBeforeLocked(f, p)
		v.Suppressed = d.marks&suppressed != 0
		v.Grace = p.grace(s.config.Load())
		v.GraceMax = maxGraces * v.Grace
		v.GraceUsed = min(max(v.Now-f.from()-p.Timeout, 0), v.GraceMax)
		at, _ := f.verdict(p, v.NotBefore)
		v.Deadline = s.wallLocked(at)
	}
}

// deafSinceLocked returns the deaf intervals after a listening time.
func (s *Source) deafSinceLocked(listened time.Duration) []DeafInterval {
	for i := range s.deaf {
		if s.deaf[i].Listened > listened {
			return append([]DeafInterval(nil), s.deaf[i:]...)
		}
	}
	return nil
}

// Cursor is a position in the list of devices. The zero Cursor is its beginning.
type Cursor uint64

// List appends pictures of at most limit devices to buffer, from a position on, in a stable order,
// and returns the position to go on from, 0 at the end. A device that is added meanwhile may or may
// not be among them; none is left out or listed twice.
func (r *Registry) List(buffer []View, from Cursor, limit int) ([]View, Cursor) {
	next := r.walk(from, func(_ *deviceShard, d *device) bool {
		if limit <= 0 {
			return false
		}
		buffer = append(buffer, r.viewLocked(d))
		limit--
		return true
	})
	return buffer, next
}

// walk calls do for each device from a position on, with its shard locked, until do returns false.
// It returns the position of that device, 0 at the end.
func (r *Registry) walk(from Cursor, do func(*deviceShard, *device) bool) Cursor {
	shard, i := int(from>>32), int(uint32(from))
	for ; shard < shardCount; shard, i = shard+1, 0 {
		if at, more := r.walkShard(shard, i, do); more {
			return Cursor(shard)<<32 | Cursor(at)
		}
	}
	return 0
}

// walkShard is walk for the devices of one shard.
func (r *Registry) walkShard(shard, from int, do func(*deviceShard, *device) bool) (at int, more bool) {
	sh := &r.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i := from; i < sh.len; i++ {
		if d := sh.at(handleOf(i, shard)); d != nil && !d.gone && !do(sh, d) {
			return i, true
		}
	}
	return 0, false
}

// Stats is a picture of a registry.
type Stats struct {
	Devices int
	States  map[State]int
	Queued  int    // events that wait for the sink
	Waits   uint64 // times that a verdict was held up because the outbox was full
	Fails   uint64 // times that the sink failed
	Lost    uint64 // events that the sink refused when Run ended, or that came afterwards
	Flaps   int    // devices that are flapping
	// StalledFor is for how long the outbox has been full without the sink taking anything, while
	// the sources' clocks stand still; otherwise 0.
	StalledFor time.Duration
	// Verdicts counts those of deadlines that passed. Lag[i] counts those of them that came within
	// LagBounds[i] of listening time after their deadline, beyond the bound before; the last of
	// Lag, which has no bound, those beyond all. LagSum is the total lag.
	Verdicts  uint64
	Lag       []uint64
	LagBounds []time.Duration
	LagSum    time.Duration
}

// Stats returns a picture of the registry. It takes each shard's lock for a moment, repeatedly;
// once a source has had a cut it costs a cache line or two per device.
func (r *Registry) Stats() Stats {
	st := Stats{Devices: int(r.devices.Load()), States: make(map[State]int), Flaps: len(r.flaps.all())}
	cut := r.anyCut()
	for i := range r.shards {
		if cut {
			r.eachLocked(i, func(_ *deviceShard, d *device) { st.States[d.stateLocked()]++ })
			continue
		}
		sh := &r.shards[i]
		sh.mu.Lock()
		for s, n := range sh.counts {
			st.States[State(s)] += n
		}
		sh.mu.Unlock()
	}
	r.outbox.stats(&st)
	r.lag.stats(&st)
	return st
}

// anyCut reports whether any device may be unknown.
func (r *Registry) anyCut() bool {
	for _, s := range r.Sources() {
		if s.unheard(-1) {
			return true
		}
	}
	return false
}

// stateLocked returns the state to show.
func (d *device) stateLocked() State {
	if shown := d.shownLocked(); shown == Pending || !d.expected() || d.state == Sleeping || !d.source.unheard(d.lastLocked()) {
		return shown
	}
	return Unknown
}

// eachLocked calls do for each device of a shard, and releases its lock from time to time. Devices
// that are made meanwhile may be left out.
func (r *Registry) eachLocked(shard int, do func(*deviceShard, *device)) {
	sh := &r.shards[shard]
	for from, more := 0, true; more; from += snapshotStride {
		sh.mu.Lock()
		to := min(from+snapshotStride, sh.len)
		for at := from; at < to; at++ {
			if d := sh.at(handleOf(at, shard)); d != nil && !d.gone {
				do(sh, d)
			}
		}
		more = to < sh.len
		sh.mu.Unlock()
	}
}
