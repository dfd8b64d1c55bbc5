package liveness

import (
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
	"github.com/holter-iot/holter/timer"
)

// conditionLocked returns what is known of a device. While heartbeats only touch its timer, the
// timer knows the last one. If the timer has just expired, its handler waits for the shard's lock,
// and only the handler knows the last heartbeat; then c.last is out of date and known is false.
func (d *device) conditionLocked() (f judgement.Condition, known bool) {
	f = judgement.Condition{State: d.state, Reason: d.reason, Last: d.last, Until: d.until, Asked: d.asked}
	if !d.touched {
		return f, true
	}
	last, known := d.source.engine.Touched(d.timer)
	f.Last = max(f.Last, last)
	return f, known
}

// stopLocked ends the device's timer. It returns the last heartbeat that touched it, 0 if none did.
func (r *Registry) stopLocked(d *device) (last time.Duration) {
	if d.timer == 0 {
		return 0
	}
	touched, won := d.source.engine.Disarm(d.timer)
	if won && d.touched {
		last = touched
	}
	d.timer, d.touched = 0, false
	return last
}

// countLocked adds n, 1 or -1, to the number of devices that the source waits for, if the device is
// one of them.
func (d *device) countLocked(n int64) {
	if d.source != nil && d.expected() {
		d.source.alive.Add(n)
	}
}

// setLocked makes next the device's condition: it emits what changed from the one before, which is on
// the same clock, and arms the timer for the next step.
func (r *Registry) setLocked(sh *deviceShard, d *device, before, next judgement.Condition, now time.Duration) {
	r.storeHeard(d, next.Last)
	if touched := r.stopLocked(d); touched > next.Last { // since
		next.Last = touched
		r.storeHeard(d, touched)
	}
	was, since := d.standing(), d.since
	if next != before {
		d.marks &^= toldSince
	}
	if next.Last > before.Last {
		d.marks &^= watched | cutOff
	}
	if next.Last > before.Last || !next.Expected() {
		sh.endGrantLocked(d)
	}
	if next.Last != before.Last {
		sh.endSightingLocked(d)
	}
	sh.counts[d.shownLocked()]--
	d.countLocked(-1)
	d.last, d.until, d.state, d.reason, d.asked = next.Last, next.Until, next.State, next.Reason, next.Asked
	if before.State != next.State {
		d.marks |= statePending
		r.keepVerdictLocked(sh, d, before, next)
	}
	if !next.Ending() {
		dropKept(&sh.ends, d.handle)
	}
	sh.judgeByLocked(d, before, next, now)
	sh.counts[d.shownLocked()]++
	d.countLocked(1)
	if before.State != next.State {
		d.since = r.clock.steady()
		r.regroupLocked(d, was, since)
	}
	if next.Notable(before) {
		r.changedLocked(sh, d, before.State, since, now)
	}
	r.armLocked(d, next, 0)
}

// armLocked starts the timer for the device's next step, which may be put off for a while. No timer
// of the device may run.
func (r *Registry) armLocked(d *device, f judgement.Condition, putOff time.Duration) {
	d.marks &^= probeable
	if d.session != nil && d.session.peer != nil { // only a connected peer can be probed
		d.marks |= probeable
	}
	p := d.policyLocked()
	whole := d.wholeLocked(f.Last)
	next, ok := f.Next(p, d.putOffLocked(f, d.source.notBefore(whole, f.From(), d.toldUntilLocked(f), p, &judgement.Pace{})))
	if (d.marks&suppressed != 0 || p.Paced()) && ok && next.At <= d.source.Now() { // they matter only once the step is due; until then heartbeats may touch the timer
		o := d.outlookLocked(f)
		if next, ok = f.Next(o.Policy, o.NotBefore); p.Paced() {
			next.Period = 0 // it would be that of this silence, not of the next one
		}
	}
	if ok && (d.marks&watched != 0 || d.running() || d.source.unheard(whole)) {
		next.Period = 0 // in a gap the timer would round the last heartbeat up, perhaps beyond the deaf interval
	}
	if ok {
		// An error means that the source is closed: nothing is judged any more. It has room for MaxDevices.
		d.timer, _ = d.source.group.ArmAt(next.At+putOff, next.Period, d.timerData())
		d.touched = next.Period != 0 && d.timer != 0
	}
	if d.session != nil {
		id := d.timer
		if !d.touched {
			id = 0
		}
		d.session.timer.Store(uint64(id))
	}
}

// changedLocked emits the event of a change of state. before had begun at since.
func (r *Registry) changedLocked(sh *deviceShard, d *device, before State, since int64, now time.Duration) {
	crossed := before != NeverSeen && (d.state == Offline) != (before == Offline)
	if crossed {
		if d.changes == nil {
			d.changes = &changes{}
		}
		d.changes.add(r.clock.steady(), r.rules.Load().flapping.Threshold)
	}
	if t, ok := eventOf(d.state); ok {
		e := r.eventLocked(sh, d, t, said{}, now)
		if before == Offline {
			e.OfflineFor = time.Duration(max(d.since-since, 1))
		}
		r.outbox.put(e)
	}
	if crossed {
		r.flapLocked(sh, d, now)
	}
}

// eventOf returns the type of the event that reports a state, and false for a state that no device
// changes to.
func eventOf(s State) (t Type, ok bool) {
	switch s {
	case Online:
		return DeviceOnline, true
	case Late:
		return DeviceLate, true
	case Sleeping:
		return DeviceSleeping, true
	case Offline:
		return DeviceOffline, true
	case NeverSeen, Unknown, Suspect, Pending:
	}
	return 0, false
}

// emitLocked is tellLocked for an event with no more than a message.
func (r *Registry) emitLocked(sh *deviceShard, d *device, t Type, message string, now time.Duration) {
	r.tellLocked(sh, d, t, said{message: message}, now)
}

// tellLocked numbers an event of a device and hands it to the outbox.
func (r *Registry) tellLocked(sh *deviceShard, d *device, t Type, told said, now time.Duration) {
	r.outbox.put(r.eventLocked(sh, d, t, told, now))
}

// eventLocked numbers an event of a device. It must be handed to the outbox before the next one is made.
func (r *Registry) eventLocked(sh *deviceShard, d *device, t Type, told said, now time.Duration) Event {
	if d.num == 0 {
		d.num = r.numbers.allocate()
		if d.seq == 0 { // a configured device was made before the floor was restored
			d.seq = r.floor.Load()
		}
		r.storeHeard(d, d.last)
	}
	committed := sh.committedLocked(d)
	d.seq++
	sh.setCommittedLocked(d, committed)
	rule := d.rule.Value()
	rec := r.recordLocked(sh, d)
	e := Event{
		Type:        t,
		Subject:     rec.ID,
		Seq:         d.seq,
		Epoch:       d.epoch,
		Time:        r.clock.time(),
		Policy:      d.fromLocked(),
		Timeout:     d.heldLocked().Timeout,
		Message:     told.message,
		ExitStatus:  told.status,
		Duration:    told.took,
		Flapping:    d.changes != nil && d.changes.flapping,
		Maintenance: d.maintained(),
		Record:      rec,
		handle:      d.handle,
	}
	if d.source != nil {
		d.fillTimesLocked(&e, now)
		rec.Seen = e.LastSeen
	}
	if d.state == Offline {
		e.Reason = d.reason
	}
	if rule.group != nil {
		e.Group = rule.group.Name
		e.Outage = rule.group.inOutage()
	}
	if d.session != nil {
		d.session.pending.Store(true)
	}
	return e
}

// fillTimesLocked fills in what follows from the source's clock. However the wall clock was set,
// the deadline of a silence is not less than the timeout after the device was last seen, and a
// verdict's time is not before its deadline.
func (d *device) fillTimesLocked(e *Event, now time.Duration) {
	s := d.source
	f, _ := d.conditionLocked()
	f.Last = d.lastLocked()
	e.Source = s.name
	e.HeardSilence = max(now-f.Last, 0)
	o := d.outlookLocked(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.LastSeen = d.seenLocked(f.Last)
	if !f.Awaited(o.Policy) {
		return
	}
	due, _ := f.Verdict(o.Policy, o.NotBefore)
	e.Deadline = s.wallLocked(due)
	if e.Type == DeviceOffline && f.Until != 0 && e.Time.Before(e.Deadline) { // the wall clock was set back a moment ago
		e.Time = e.Deadline
	}
}

// recordLocked returns what must be kept of the device. It has a copy of the id, which may lie within the
// device: whoever keeps the record must not keep that.
func (r *Registry) recordLocked(sh *deviceShard, d *device) *keep.Record {
	rec := &keep.Record{
		Num: d.num, ID: strings.Clone(d.id), State: d.state, Reason: d.reason, Last: d.lastLocked(), Until: d.until,
		Since: time.Unix(0, d.since), Seq: d.seq, Epoch: d.epoch,
		Announced: d.rule.Value().announced, Own: sh.own[d.id],
		Maintenance: d.marks&byOperator != 0, Window: d.marks&byWindow != 0, Forgotten: d.marks&forgotten != 0,
		Unverified: d.unverified(),
	}
	if at, ok := sh.runs[d.handle]; ok && d.running() {
		rec.Started = time.Unix(0, at)
	}
	if d.state != Offline {
		rec.Reason = NoReason // that a connection ended is not kept: after a restart every device has to reconnect
	}
	if d.state == Online || d.state == Late {
		rec.Until = 0
	}
	if d.source != nil {
		rec.Source = d.source.name
	}
	if f, _ := d.conditionLocked(); !f.Ending() { // of a connection that ended nothing is kept
		rec.JudgedBy = d.judgedByLocked(f)
	}
	if q := r.quotaOf(d); q != nil {
		rec.Quota = q.name
	}
	if d.marks&learned != 0 {
		rec.Learned = sh.habit(d).InForce()
	}
	if c := d.changes; c != nil {
		rec.Changes, rec.Flapping = slices.Clone(c.at), c.flapping
	}
	return rec
}

// yieldEvery is after how many verdicts the handler yields. On few cores a mass verdict would
// otherwise delay the reading of heartbeats.
const yieldEvery = 32

// expired handles the source's expired timers: it takes the next step of each device.
func (s *Source) expired(expired []timer.Expired) {
	now := s.Now()
	for i := range expired {
		if i%yieldEvery == yieldEvery-1 {
			runtime.Gosched()
		}
		if s.registry.outbox.wait() {
			now = s.Now()
		}
		s.registry.pass(s, &expired[i], now)
	}
}

// pass takes a device's next step.
func (r *Registry) pass(s *Source, e *timer.Expired, now time.Duration) {
	sh, d := r.lock(uint32(e.Data))
	defer sh.mu.Unlock()
	if d == nil || d.timer != e.ID || d.source != s {
		return // the device has moved on
	}
	f, _ := d.conditionLocked()
	if d.touched {
		f.Last = max(f.Last, e.Touched) // a touch, unless it is the arming, less what rounding takes
	}
	o := d.outlookLocked(f)
	next := f.Passed(now, o.Policy, o.NotBefore)
	if next.Suspect() && next.Until != f.Until && !d.probeLocked() {
		next.Asked = f.Asked
	}
	r.setLocked(sh, d, f, next, now)
	if f.State == Offline {
		d.relapsedLocked()
		return
	}
	if d.state == Offline {
		r.lag.add(now - d.until)
		if due, _ := f.Verdict(o.Policy, d.putOffLocked(f, 0)); d.until > due && d.marks&suppressed == 0 {
			r.lag.putOff.Add(1)
		}
	}
}
