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
	epoch     uint64        // of the session that it was in, if the registry does not number the device's
	end       bool          // the session ends
	opens     *Session      // it becomes the device's session, with peer as its far end
	peer      Peer
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
// nil, sees the device afterwards. Errors: [ErrBusy]; then nothing has changed, but that it was heard if it was it that spoke.
func (s *Source) applyLocked(sh *deviceShard, d *device, sig signal, look func(*device)) error {
	r := s.registry
	if sig.kind == heartbeat && sig.announced == nil && !sig.end && sig.opens == nil && d.source == s && sig.epoch <= d.epoch && d.touched &&
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
	c := change{next: f.after(sig, rule.Value().Policy), moved: moved, told: sig.epoch > d.epoch}
	c.replaced = d.replacedBy(sig, f, c)
	c.noted = rule.Value().announced != d.rule.Value().announced || moved || c.told
	notable := c.next.news(f) || sig.kind == failure || rule != d.rule || c.told || c.replaced || moved
	if notable && d.state != NeverSeen && r.outbox.busy() { // room for one that is new was asked for when it was made
		deferred, ok := f.deferred(sig)
		if !ok || moved {
			if sig.kind != hangup && sig.kind != retained {
				d.noteLocked(sh, s, sig.now)
			}
			return ErrBusy
		}
		c = change{next: deferred}
	}
	switch {
	case c.told:
		d.epoch = sig.epoch
	case sig.opens != nil && sig.epoch == 0:
		d.epoch = max(d.epoch+1, d.epoch) // the last one there is stays
	}
	s.seatLocked(d, sig, c)
	seq := d.seq
	if d.rule = rule; !known && sig.opens == nil && c.next.state == f.state && c.next.last == f.last {
		d.reason, d.until = c.next.reason, c.next.until // the verdict that is on its way takes it into account
	} else {
		r.setLocked(sh, d, c.next, sig.now)
	}
	if sig.kind == failure {
		r.emitLocked(sh, d, DeviceFailed, sig.message, sig.now)
	}
	if c.replaced {
		r.emitLocked(sh, d, DeviceSessionReplaced, "", sig.now)
	}
	if c.noted && d.seq == seq {
		r.emitLocked(sh, d, DeviceChanged, "", sig.now)
	}
	d.show(look)
	return nil
}

// noteLocked notes that a device was heard by a source that was told busy. It counts where the device is waited for; nobody need be told of it.
func (d *device) noteLocked(sh *deviceShard, by *Source, now time.Duration) {
	s := d.source
	if s == nil {
		return
	}
	if s != by {
		now = s.Time(time.Now())
	}
	_ = s.applyLocked(sh, d, signal{now: now}, nil) // never busy: it is where the device is
}

// change is what a signal does to a device.
type change struct {
	next     facts
	moved    bool // it goes by another clock
	told     bool // its sessions' number rises
	replaced bool // a session took the place of another that was open
	noted    bool // there is to be an event, whatever else follows
}

// replacedBy says whether with a change a session takes the place of another that is open, here or, as far as one can tell, elsewhere.
func (d *device) replacedBy(sig signal, f facts, c change) bool {
	if sig.opens != nil {
		return d.session != nil && d.session != sig.opens
	}
	return c.told && d.epoch != 0 && (f.state == Online || f.state == Late) && !f.ending() && !c.next.ending()
}

// seatLocked gives the device the session and the source that it has after a signal.
func (s *Source) seatLocked(d *device, sig signal, c change) {
	switch {
	case sig.end && d.session != nil:
		d.session.timer.Store(0)
		d.session = nil
	case sig.opens != nil && c.replaced:
		d.cutLocked(Peer.Replaced)
	}
	if c.moved {
		d.moveLocked(s.registry, s)
	}
	session := sig.opens
	if session == nil {
		return
	}
	if session.device != d || session.source != s { // else a heartbeat may be reading them
		session.device, session.source = d, s
	}
	session.epoch, session.peer = d.epoch, sig.peer
	if session != d.session {
		session.pending.Store(d.marks&uncommitted != 0)
	}
	d.session = session
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
