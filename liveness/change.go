package liveness

import "time"

// change is what happens to a device between its greeting and its end.
type change struct {
	now time.Duration
	to  func(facts, Policy) facts
	// late is what happens instead if to would cause an event and no more of them can be held: it keeps the state. Without one the change
	// is refused.
	late      func(facts) facts
	announced *Policy // the protocol announced it
	epoch     uint64  // of the session that it was in, if that is not one of the registry's
	quick     bool    // it is no more than a heartbeat
	end       bool    // the session ends
	failed    bool    // the device told of a failure
	message   string
	then      func(*device) // looks at the outcome
}

func beat(now time.Duration) change {
	return change{
		now:  now,
		to:   func(f facts, _ Policy) facts { return f.heard(now) },
		late: func(f facts) facts { return f.touched(now) },

		quick: true,
	}
}

func sleep(now, length time.Duration, granted *time.Duration) change {
	return change{now: now, to: func(f facts, p Policy) facts {
		f = f.slept(now, max(length, 0), p)
		*granted = f.until - f.last
		return f
	}}
}

func fail(now time.Duration, message string) change {
	return change{now: now, to: func(f facts, _ Policy) facts { return f.heard(now) }, failed: true, message: message}
}

func bye(now time.Duration) change {
	return change{
		now:  now,
		to:   func(f facts, _ Policy) facts { return f.left(now) },
		late: func(f facts) facts { return f.leaving(now) },
	}
}

// applyLocked applies a change.
func (r *Registry) applyLocked(sh *deviceShard, d *device, c change) error {
	if c.quick && c.epoch <= d.epoch && d.touched && d.source.engine.Touch(d.timer, c.now) {
		c.outcome(d)
		return nil
	}
	rule := d.rule
	if c.announced != nil {
		rule = r.resolveLocked(sh, d.id, *c.announced)
	}
	f, known := d.factsLocked()
	next := c.to(f, rule.Value().Policy)
	if (next.news(f) || c.failed || rule != d.rule || c.epoch > d.epoch) && r.outbox.busy() {
		if c.late == nil {
			return ErrBusy
		}
		next, c.epoch = c.late(f), 0
	}
	if c.end && d.session != nil {
		d.session.timer.Store(0)
		d.session = nil
	}
	changed, seq := rule.Value().announced != d.rule.Value().announced, d.seq
	told := c.epoch > d.epoch
	replaced := told && d.epoch != 0 && (f.state == Online || f.state == Late) && !f.ending() && !next.ending()
	d.epoch = max(d.epoch, c.epoch)
	if d.rule = rule; !known && next.state == f.state && next.last == f.last {
		d.reason, d.until = next.reason, next.until // the verdict that is on its way takes it into account
	} else {
		r.setLocked(sh, d, next, c.now)
	}
	if c.failed {
		r.emitLocked(sh, d, DeviceFailed, c.message, c.now)
	}
	if replaced && d.seq == seq {
		r.emitLocked(sh, d, DeviceSessionReplaced, "", c.now)
	}
	if (changed || told) && d.seq == seq {
		r.emitLocked(sh, d, DeviceChanged, "", c.now)
	}
	c.outcome(d)
	return nil
}

func (c *change) outcome(d *device) {
	if c.then != nil {
		c.then(d)
	}
}
