package liveness

import "time"

// signal is what happened to a device.
type signal struct {
	kind      kind
	now       time.Duration // on the clock of the source that it goes by
	length    time.Duration // of a sleep
	why       Reason        // of a hangup
	message   string        // of a failure
	announced *Policy       // the protocol announced it
	epoch     uint64        // of the session that it was in, if that is not one of the registry's
	end       bool          // the session ends
}

// kind is what a signal says. What it does to a device is in facts.after and facts.deferred.
type kind uint8

const (
	heartbeat kind = iota
	asleep         // it announced a sleep
	failure        // it told of a failure of its own
	goodbye        // it goes offline
	hangup         // its connection ended
	retained       // a word from before that it was online
)

// applyLocked applies a signal to a device that goes by the clock of a source, which it comes over to if it had another. look, unless it is
// nil, sees the device afterwards. Errors: [ErrBusy]; then nothing has changed.
func (s *Source) applyLocked(sh *deviceShard, d *device, sig signal, look func(*device)) error {
	r := s.registry
	if sig.kind == heartbeat && sig.announced == nil && !sig.end && d.source == s && sig.epoch <= d.epoch && d.touched &&
		s.engine.Touch(d.timer, sig.now) {
		d.show(look)
		return nil
	}
	sig.now = heardAt(sig.now)
	rule := d.rule
	if sig.announced != nil {
		rule = r.resolveLocked(sh, d.id, *sig.announced)
	}
	f, known := d.factsLocked()
	moved := d.source != s
	if moved && d.source != nil {
		f, known = f.shifted(sig.now-max(d.source.Now(), f.last)), true
	}
	next := f.after(sig, rule.Value().Policy)
	told := sig.epoch > d.epoch
	notable := next.news(f) || sig.kind == failure || rule != d.rule || told || moved
	if notable && d.state != NeverSeen && r.outbox.busy() { // room for one that is new was asked for when it was made
		deferred, ok := f.deferred(sig)
		if !ok || moved {
			return ErrBusy
		}
		next, told = deferred, false
	}
	if sig.end && d.session != nil {
		d.session.timer.Store(0)
		d.session = nil
	}
	if moved {
		d.moveLocked(r, s)
	}
	changed, seq := rule.Value().announced != d.rule.Value().announced || moved, d.seq
	replaced := told && d.epoch != 0 && (f.state == Online || f.state == Late) && !f.ending() && !next.ending()
	if told {
		d.epoch = sig.epoch
	}
	if d.rule = rule; !known && next.state == f.state && next.last == f.last {
		d.reason, d.until = next.reason, next.until // the verdict that is on its way takes it into account
	} else {
		r.setLocked(sh, d, next, sig.now)
	}
	if sig.kind == failure {
		r.emitLocked(sh, d, DeviceFailed, sig.message, sig.now)
	}
	if replaced && d.seq == seq {
		r.emitLocked(sh, d, DeviceSessionReplaced, "", sig.now)
	}
	if (changed || told) && d.seq == seq {
		r.emitLocked(sh, d, DeviceChanged, "", sig.now)
	}
	d.show(look)
	return nil
}

// moveLocked makes the device go by the clock of another source.
func (d *device) moveLocked(r *Registry, s *Source) {
	r.stopLocked(d)
	d.countLocked(-1)
	d.source = s
	d.countLocked(1)
}

// show lets a caller look at the device.
func (d *device) show(look func(*device)) {
	if look != nil {
		look(d)
	}
}
