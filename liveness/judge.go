package liveness

import (
	"runtime"
	"time"

	"github.com/holter-iot/holter/timer"
)

// factsLocked returns what is known of a device. While heartbeats move its timer alone, the timer knows the last one. If that has
// just expired, the verdict waits for the shard's lock, and only it knows; then last is out of date and known is false.
func (d *device) factsLocked() (f facts, known bool) {
	f = facts{state: d.state, reason: d.reason, last: d.last, until: d.until}
	if !d.touched {
		return f, true
	}
	last, known := d.source.engine.Touched(d.timer)
	f.last = max(f.last, last)
	return f, known
}

// stopLocked ends the device's timer.
func (r *Registry) stopLocked(d *device) {
	if d.timer != 0 {
		d.source.engine.Cancel(d.timer)
		d.timer, d.touched = 0, false
	}
}

// setLocked makes next the device's facts: it emits what changed, and arms the next step.
func (r *Registry) setLocked(sh *deviceShard, d *device, next facts, now time.Duration) {
	before := d.state
	r.stopLocked(d)
	d.last, d.until, d.state, d.reason = next.last, next.until, next.state, next.reason
	if before != next.state {
		sh.counts[before]--
		sh.counts[next.state]++
		since := d.since
		d.since = time.Now().UnixNano()
		r.regroupLocked(d, before, since)
		r.changedLocked(d, before, now)
	}
	r.armLocked(d, next)
}

// armLocked starts the timer for the device's next step. There must be none.
func (r *Registry) armLocked(d *device, f facts) {
	p := d.rule.Value().Policy
	next, ok := f.next(p, d.source.notBefore(f.last, p))
	if ok {
		// An error means that the source is closed: nothing is judged any more.
		d.timer, _ = d.source.group.ArmAt(next.at, next.period, uint64(d.handle))
		d.touched = next.period != 0 && d.timer != 0
	}
	if d.session != nil {
		id := d.timer
		if !d.touched {
			id = 0
		}
		d.session.timer.Store(uint64(id))
	}
}

// changedLocked reports a change of state.
func (r *Registry) changedLocked(d *device, before State, now time.Duration) {
	switch d.state {
	case Online:
		r.emitLocked(d, DeviceOnline, "", now)
	case Late:
		r.emitLocked(d, DeviceLate, "", now)
	case Sleeping:
		r.emitLocked(d, DeviceSleeping, "", now)
	case Offline:
		r.emitLocked(d, DeviceOffline, "", now)
	case NeverSeen, Unknown: // nobody goes there
	}
	if d.state == Offline || before == Offline {
		r.flapLocked(d, now)
	}
}

// emitLocked numbers an event of a device and sends it off.
func (r *Registry) emitLocked(d *device, t Type, message string, now time.Duration) {
	d.seq++
	rule := d.rule.Value()
	f, _ := d.factsLocked()
	verdict, _ := f.verdict(rule.Policy, d.source.notBefore(f.last, rule.Policy))
	e := Event{
		Type:         t,
		Subject:      d.id,
		Seq:          d.seq,
		Epoch:        d.epoch,
		Time:         time.Now(),
		Source:       d.source.name,
		Policy:       rule.from,
		LastSeen:     d.source.wall(f.last),
		Deadline:     d.source.wall(verdict),
		HeardSilence: max(now-f.last, 0),
		Timeout:      rule.Timeout,
		Message:      message,
		Flapping:     d.changes != nil && d.changes.flapping,
	}
	if d.state == Offline {
		e.Reason = d.reason
	}
	if rule.group != nil {
		e.Group = rule.group.Name
		e.Outage = rule.group.inOutage()
	}
	r.outbox.put(e)
}

// yieldEvery is after how many verdicts the judge lets others run: where cores are few, a mass verdict would else hold up whoever reads
// the heartbeats of the living.
const yieldEvery = 32

// expired is the handler of a source's timers: it judges the devices whose next step has come.
func (s *Source) expired(expired []timer.Expired) {
	now := s.Now()
	for i := range expired {
		if i%yieldEvery == yieldEvery-1 {
			runtime.Gosched()
		}
		s.registry.pass(s, &expired[i], now)
	}
}

// pass takes a device's next step.
func (r *Registry) pass(s *Source, e *timer.Expired, now time.Duration) {
	sh, d := r.lock(uint32(e.Data))
	defer sh.mu.Unlock()
	if d.timer != e.ID || d.source != s {
		return // the device has moved on
	}
	f, _ := d.factsLocked()
	if d.touched {
		f.last = max(f.last, e.Touched) // a touch, unless it is the arming, less what rounding takes
	}
	p := d.rule.Value().Policy
	r.setLocked(sh, d, f.passed(now, p, s.notBefore(f.last, p)), now)
	if d.state == Offline && d.session != nil && d.session.peer != nil {
		d.session.peer.Judged()
	}
}
