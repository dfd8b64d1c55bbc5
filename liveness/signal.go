package liveness

import "time"

// Kind is what a [Signal] says of its device.
type Kind uint8

const (
	// Heartbeat: the device was heard. With an Epoch it has opened that session elsewhere.
	Heartbeat Kind = iota
	// Sleep: the device will be silent for Length, which does not count against it. Policy.SleepLimit bounds it.
	Sleep
	// Failure: the device reported a failure of its own, in Message. It is alive.
	Failure
	// Goodbye: the device said goodbye and is offline at once. One that is offline already, or was never seen, stays
	// so. It makes no device: one that is not known is [ErrUnknownDevice].
	Goodbye
	// Disconnected: the device's connection elsewhere ended, for Reason. The device is offline unless it is heard
	// within the policy's CloseGrace; one that is new is offline at once. It changes nothing about a device that
	// another source hears.
	Disconnected
	// Retained: a broker kept a message that the device was online. That is no heartbeat. A device that is new
	// counts as online from now on, and so does one that is offline because its connection ended, since the
	// message must be from later. A device whose Timeout is [Never] has only the broker to vouch for it, and counts
	// as heard. Nothing else changes; nor does anything about a device that another source hears.
	Retained
)

// Signal is what a source heard of a device that has no [Session] there. The zero Signal, but for At, is a heartbeat.
type Signal struct {
	Kind Kind
	// At is the listening time of the source when the signal reached it, see [Source.Time].
	At time.Duration
	// Announced is the policy that came with the signal. The zero Policy leaves what was announced before. A Goodbye
	// ignores it.
	Announced Policy
	// Epoch is that of the session that the signal speaks of, if the device or a broker numbers its sessions; else 0.
	Epoch   uint64
	Length  time.Duration // of a Sleep
	Reason  Reason        // of Disconnected: Closed, Protocol, Will or Bye
	Message string        // of a Failure
}

// signal is a Signal with what only a session has.
type signal struct {
	Signal

	announces bool     // Announced replaces what was announced before, even if it is zero
	end       bool     // the session ends
	opens     *Session // it becomes the device's session, with peer as its far end
	peer      Peer
}

// applyLocked applies a signal to a device, which goes by the source's clock afterwards. Errors: [ErrBusy]; then nothing
// has changed, but that the device was heard if the signal came from it.
func (s *Source) applyLocked(sh *deviceShard, d *device, sig signal) error {
	r := s.registry
	if sig.Kind == Heartbeat && !sig.announces && !sig.end && sig.opens == nil && d.source == s && sig.Epoch <= d.epoch && d.touched &&
		s.engine.Touch(d.timer, sig.At) {
		return nil
	}
	sig.At = heardAt(sig.At)
	rule := d.rule
	if sig.announces {
		rule = r.resolveLocked(sh, d.id, sig.Announced)
	}
	f, known := d.factsLocked()
	moved := d.source != s
	if moved && d.source != nil {
		f, known = f.shifted(sig.At-max(d.source.Now(), f.last)), true
	}
	c := change{next: f.after(sig, rule.Value().Policy), moved: moved, told: sig.Epoch > d.epoch}
	c.replaced = d.replacedBy(sig, f, c)
	c.noted = rule.Value().announced != d.rule.Value().announced || moved || c.told
	notable := c.next.news(f) || sig.Kind == Failure || rule != d.rule || c.told || c.replaced || moved
	if notable && d.state != NeverSeen && r.outbox.busy() { // room for one that is new was asked for when it was made
		deferred, ok := f.deferred(sig)
		if !ok || moved {
			if sig.Kind != Disconnected && sig.Kind != Retained {
				d.noteLocked(sh, s, sig.At)
			}
			return ErrBusy
		}
		c = change{next: deferred}
	}
	switch {
	case c.told:
		d.epoch = sig.Epoch
	case sig.opens != nil && sig.Epoch == 0:
		d.epoch = max(d.epoch+1, d.epoch) // the last one there is stays
	}
	s.seatLocked(d, sig, c)
	seq := d.seq
	if d.rule = rule; !known && sig.opens == nil && c.next.state == f.state && c.next.last == f.last {
		d.reason, d.until = c.next.reason, c.next.until // the verdict that is on its way takes it into account
	} else {
		r.setLocked(sh, d, c.next, sig.At)
	}
	if sig.Kind == Failure {
		r.emitLocked(sh, d, DeviceFailed, sig.Message, sig.At)
	}
	if c.replaced {
		r.emitLocked(sh, d, DeviceSessionReplaced, "", sig.At)
	}
	if c.noted && d.seq == seq {
		r.emitLocked(sh, d, DeviceChanged, "", sig.At)
	}
	return nil
}

// noteLocked notes that a device was heard by a source that was told busy. It counts where the device is waited for; nobody need be told of it.
func (d *device) noteLocked(sh *deviceShard, by *Source, now time.Duration) {
	s := d.source
	if s == nil {
		return
	}
	if s != by {
		now = s.Time(s.registry.clock.time())
	}
	_ = s.applyLocked(sh, d, signal{Signal: Signal{At: now}}) // never busy: it is where the device is
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
