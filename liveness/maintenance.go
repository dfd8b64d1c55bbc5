package liveness

import (
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness/judgement"
)

// marks are flags of a device beside its condition.
type marks uint16

const (
	byOperator   marks = 1 << iota // in maintenance
	byWindow                       // a maintenance window covers it
	suppressed                     // a maintenance window suppresses its silence
	statePending                   // its change of state waits for the sink
	probeable                      // as of the last arming: it has a session open
	unverified                     // nobody who was heard as this device has shown a proof of that
	outlived                       // its connection has outlived the process before, see Source.Resume
	toldSince                      // it was restored asleep or offline, and was heard last after the checkpoint
	forgotten                      // it was removed
	cutOff                         // its connection was ended because it was judged, see Gap.CutOff
	watched                        // its silence is long: its next heartbeat is to take its lock
	learned                        // a learned deadline is in force, which its habit has
	regrouped                      // it belongs to another group, of which no event tells yet
	underWay                       // a run of it, see Start
	granted                        // a policy before has left it time, see Registry.Reconfigure
	sighted                        // deviceShard.sightings has when a sign of life of it was
)

func marksOf(rec *keep.Record) (m marks) {
	if rec.Maintenance {
		m |= byOperator
	}
	if rec.Window {
		m |= byWindow
	}
	if rec.Unverified {
		m |= unverified
	}
	return m
}

// maintained reports whether the device's events are not to raise an alarm.
func (d *device) maintained() bool { return d.marks&(byOperator|byWindow) != 0 }

// maintainedSinceLocked reports whether the device was in maintenance after a listening time: what it does then is no habit.
func (d *device) maintainedSinceLocked(last time.Duration) bool {
	ended, ok := d.source.registry.shards[d.handle%shardCount].maintained[d.handle]
	return d.maintained() || ok && last < ended
}

// suppression is until when a device's silence does not count.
type suppression struct {
	source *Source
	until  time.Duration // listening time of the source
	early  bool          // until was told before the source went on, see [operate.Owner], and was not past
}

// end returns the listening time until which it lasts.
func (x suppression) end() time.Duration {
	if x.early {
		return x.until + time.Duration(x.source.skipped.Load())
	}
	return x.until
}

// suppressionTolerance is by how much a window's end may move without a device's step being armed
// again, since clocks do not agree.
const suppressionTolerance = 2 * time.Second

// Cover implements [operate.Registry].
func (r operator) Cover(from uint64, limit int, ended string, by func(id, group string) (w operate.Window, covered bool)) (next uint64, changed int, err error) {
	next, err = r.walkSome(from, limit, func(sh *deviceShard, d *device) {
		w, covered := by(d.id, d.group())
		if !covered {
			w = operate.Window{Name: ended}
		}
		if r.coverLocked(sh, d, w, covered) {
			changed++
		}
	})
	return next, changed, err
}

// coverLocked records whether a device is covered, and reports whether that is new.
func (r *Registry) coverLocked(sh *deviceShard, d *device, w operate.Window, covered bool) bool {
	if d.source != nil {
		r.setSuppressionLocked(sh, d, w.Suppress)
	}
	return r.toggleLocked(sh, d, byWindow, covered, w.Name)
}

// toggleLocked sets or clears a mark that puts the device in maintenance, with an event that has a
// message, and reports whether that is new.
func (r *Registry) toggleLocked(sh *deviceShard, d *device, mark marks, on bool, message string) bool {
	if on == (d.marks&mark != 0) {
		return false
	}
	was := d.standing()
	d.marks ^= mark
	if !on && r.learning.on.Load() && d.source != nil {
		if sh.maintained == nil {
			sh.maintained = make(map[uint32]time.Duration)
		}
		sh.maintained[d.handle] = d.nowLocked()
	}
	r.regroupLocked(d, was, d.since)
	kind := DeviceMaintenanceStopped
	if on {
		kind = DeviceMaintenanceStarted
	}
	r.emitLocked(sh, d, kind, message, d.nowLocked())
	return true
}

// setSuppressionLocked suppresses a device's silence for a duration from now, 0 to end it.
func (r *Registry) setSuppressionLocked(sh *deviceShard, d *device, left time.Duration) {
	now := d.source.Now()
	was, end := sh.suppressions[d.id], now+min(left, judgement.MaxSpan)
	isSuppressed := d.marks&suppressed != 0 && was.source == d.source
	switch {
	case left == 0 && d.marks&suppressed == 0:
		return
	case left == 0 && (!isSuppressed || d.suppressedUntilLocked(was) <= now): // it is over
		delete(sh.suppressions, d.id)
		d.marks &^= suppressed
	case left == 0 && was.end() <= now+suppressionTolerance: // its timeout begins
		return
	case isSuppressed && (end-was.end()).Abs() <= suppressionTolerance:
		return
	default:
		sh.suppressLocked(d, end, false)
	}
	r.rearmLocked(sh, d)
}

// suppressedUntilLocked returns when the timeout ends that a device has after a suppression.
func (d *device) suppressedUntilLocked(x suppression) time.Duration {
	p, end := d.heldLocked(), x.end()
	by := d.source.pace(p, end, end)
	return by.After(end, p.Timeout)
}

// timeoutBackLocked returns how long ago a timeout began, or longer, that ends now.
func (d *device) timeoutBackLocked() time.Duration {
	p, now := d.heldLocked(), d.source.Now()
	span := p.Timeout
	for range 2 * judgement.MaxWindows * 7 { // one turn for each window of a week is enough
		by := d.source.pace(p, 0, now-span)
		over := by.After(now-span, p.Timeout) - now
		if over <= 0 {
			break
		}
		span += over
	}
	return span
}

// rearmLocked arms the device's next step anew. If its timer has expired, the handler reads the
// suppression.
func (r *Registry) rearmLocked(sh *deviceShard, d *device) {
	if f, known := d.conditionLocked(); known && d.expected() {
		r.setLocked(sh, d, f, f, d.nowLocked())
	}
}

// suppressLocked suppresses a device's silence until a listening time; early is that of a suppression.
func (sh *deviceShard) suppressLocked(d *device, until time.Duration, early bool) {
	if sh.suppressions == nil {
		sh.suppressions = make(map[string]suppression)
	}
	sh.suppressions[d.id] = suppression{d.source, until, early}
	d.marks |= suppressed
}

// Suppress implements [operate.Registry].
func (r operator) Suppress(by func(id, group string, timeout time.Duration) (end time.Duration, ok bool)) {
	r.each(func(sh *deviceShard, d *device) {
		if d.source == nil {
			return
		}
		timeout := d.timeoutBackLocked()
		if end, ok := by(d.id, d.group(), timeout); ok && end > -timeout {
			sh.suppressLocked(d, d.source.Now()+min(end, judgement.MaxSpan), end >= 0 && d.source.latest.Load() == nil)
			r.rearmLocked(sh, d)
		}
	})
}

// group returns the name of the device's group, empty if it has none.
func (d *device) group() string {
	if g := d.rule.Value().group; g != nil {
		return g.Name
	}
	return ""
}

// suppressedLocked returns the listening time until which maintenance windows suppress the device's silence, 0
// if they do not.
func (d *device) suppressedLocked() time.Duration {
	if d.marks&suppressed == 0 {
		return 0
	}
	x := d.source.registry.shards[d.handle%shardCount].suppressions[d.id]
	if x.source != d.source {
		return 0
	}
	return x.end()
}
