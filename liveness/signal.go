package liveness

import (
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// Kind is what a [Signal] says of its device.
type Kind uint8

const (
	// Heartbeat: the device was heard. With an Epoch it has opened that session elsewhere.
	Heartbeat Kind = iota
	// Sleep: the device will be silent for Length, which does not count against it.
	// Policy.SleepLimit bounds it.
	Sleep
	// Failure: the device reported a failure of its own, in Message. It is alive. A run that was under way is
	// over, see Start.
	Failure
	// Goodbye: the device said goodbye and is offline at once. One that is offline already, or was
	// never seen, stays so. A goodbye makes no device: the error is [ErrUnknownDevice].
	Goodbye
	// Disconnected: the device's connection elsewhere ended, for Reason. The device is offline
	// unless it is heard within the policy's CloseGrace; a new device is offline at once. It
	// changes nothing about a device that another source hears. With AtOnce there is no such grace:
	// the device is judged as soon as the source's clock has passed At, unless it is heard before.
	// Unless it is Retained, it ends the reconnect grace that is left from a cut that was not after At: the
	// device has its CloseGrace then, also with AtOnce.
	Disconnected
	// Retained: a broker kept a message that the device was online. That is no heartbeat. A new
	// device counts as online from now on, and so does one that is offline because its connection
	// ended, since the message must be from later. A device whose Timeout is [Never] has only the
	// broker to vouch for it, and counts as heard. Nothing else changes, nor does anything about a
	// device that another source hears.
	Retained
	// Start: the device, a job, began a run. That is a sign of life, from which silence counts at once, whatever
	// the policy's Expect says. Heartbeat and Failure end the run; until then a further Start replaces it. So do
	// Sleep and Goodbye, without an event of their own. Runs survive a restart.
	Start
)

// Signal is what a source heard of a device that has no [Session] there. Its zero Kind is a
// heartbeat.
type Signal struct {
	Kind Kind
	// At is the listening time of the source when the signal reached it, see [Source.Time].
	At time.Duration
	// Announced is the policy that came with the signal. The zero Policy leaves what was announced
	// before. A Goodbye ignores it.
	Announced Policy
	// Epoch is that of the session that the signal speaks of, if the device or a broker numbers its
	// sessions; otherwise 0.
	Epoch  uint64
	Length time.Duration // of a Sleep
	Reason Reason        // of Disconnected: Closed, Protocol, Will, Bye or Reported
	AtOnce bool          // of Disconnected: the device has no CloseGrace
	// Retained, of Disconnected: a broker kept the message, which may be from before the source was deaf.
	Retained bool
	Message  string // of a Failure, or a Heartbeat that ends a run; see [MaxMessage]
	// ExitStatus and Took are of the run that a Failure or a Heartbeat ends, as the job itself knows them. Took
	// is 0 if it does not: then it is the time since the Start, by a clock that is never set back.
	ExitStatus int
	Took       time.Duration
	// Unverified: nothing proves that the signal is from the device, nor from somebody who may speak
	// for it. The server can forget such devices sooner than others.
	Unverified bool
}

// signal is a Signal with what only a session has.
type signal struct {
	Signal

	announces bool     // Announced replaces what was announced before, even if it is zero
	verifies  bool     // it comes with a proof of which device it is from; the others leave open what was known of that
	end       bool     // the session ends
	opens     *Session // it becomes the device's session, with peer as its far end
	peer      Peer
	resumes   bool // it opens a session that another process has opened
	aside     bool // the device was heard, and nothing else: a run that is under way goes on
}

// applyLocked applies a signal to a device, which is judged by the source's clock afterwards.
// Errors: [ErrBusy]; then nothing has changed, but that the device was heard if the signal came
// from it.
func (s *Source) applyLocked(sh *deviceShard, d *device, sig signal) error {
	r := s.registry
	if sig.Kind == Heartbeat && !sig.announces && !sig.end && !sig.finishes(d) && sig.opens == nil && d.source == s && sig.Epoch <= d.epoch && d.touched &&
		!d.verifiedBy(sig) &&
		s.engine.Touch(d.timer, sig.At) {
		return nil
	}
	sig.At = keep.Round(sig.At)
	rule := d.rule
	if sig.announces {
		rule = r.resolveLocked(sh, d.id, sig.Announced)
	}
	moved := d.source != s
	f, known := s.conditionHereLocked(d, sig.At)
	held := rule.Value()
	p := s.recoveryPolicy(f, d.pacePolicyLocked(d.heldByLocked(&held)))
	c := change{next: sig.after(f, p), moved: moved, newEpoch: sig.Epoch > d.epoch, verified: d.verifiedBy(sig)}
	c.replaced = d.replacedBy(sig, f, c) && !s.wanders(d, sig.opens)
	away := moved && !s.besides(d.source)
	c.reported = rule.Value().announced != d.rule.Value().announced || away || c.newEpoch || c.verified
	notable := c.next.Notable(f) || sig.tells(d) || rule != d.rule || c.newEpoch || c.replaced || c.verified || away
	if notable && d.state != NeverSeen && r.outbox.busy() { // findOrAdd has checked for a new device
		deferred, ok := sig.deferred(f, p)
		if !ok || moved || sig.finishes(d) {
			if sig.Kind != Disconnected && sig.Kind != Retained {
				d.heardByLocked(sh, s, sig.At)
			}
			return ErrBusy
		}
		c = change{next: deferred}
	}
	if sig.Kind != Disconnected && (sig.Kind != Retained || c.next.Last > f.Last) {
		before := f
		if !known && !moved {
			before.Last = max(d.lastLocked(), before.Last)
		}
		r.noticeGapLocked(sh, d, before, c.next.Last, sig)
	}
	r.keepEndLocked(sh, d, f, sig)
	switch {
	case c.newEpoch:
		d.epoch = sig.Epoch
	case sig.opens != nil && sig.Epoch == 0 && !s.wanders(d, sig.opens):
		d.epoch = max(d.epoch+1, d.epoch) // the greatest epoch stays
	}
	s.attachLocked(d, sig, c)
	sh.noteEndLocked(d, sig, c.next, p.CloseGrace)
	took := sh.runLocked(d, sig, r.clock.steady())
	seq := d.seq
	sh.ruleByLocked(d, f, rule)
	if !known && sig.opens == nil && c.next.State == f.State && c.next.Last == f.Last {
		sh.judgeByLocked(d, f, c.next, sig.At)
		d.reason, d.until = c.next.Reason, c.next.Until // the verdict whose timer has expired reads them
	} else {
		r.setLocked(sh, d, f, c.next, sig.At)
	}
	c.reported = c.reported && d.seq == seq
	r.reportLocked(sh, d, sig, c, took)
	return nil
}

// reportLocked emits what is to be told beside a change of state, or without one.
func (r *Registry) reportLocked(sh *deviceShard, d *device, sig signal, c change, took time.Duration) {
	seq := d.seq
	switch told := (said{sig.Message, sig.ExitStatus, took}); {
	case sig.Kind == Failure:
		r.tellLocked(sh, d, DeviceFailed, told, sig.At)
	case sig.Kind == Start:
		r.emitLocked(sh, d, DeviceRunStarted, "", sig.At)
	case sig.Kind == Heartbeat && told != said{}:
		r.tellLocked(sh, d, DeviceRunFinished, told, sig.At)
	}
	if c.replaced {
		r.emitLocked(sh, d, DeviceSessionReplaced, "", sig.At)
	}
	if c.reported && d.seq == seq {
		r.emitLocked(sh, d, DeviceChanged, "", sig.At)
	}
}

// conditionHereLocked returns the condition of a device on the clock of a source that hears it now.
func (s *Source) conditionHereLocked(d *device, now time.Duration) (f judgement.Condition, known bool) {
	f, known = d.conditionLocked()
	switch {
	case d.source == s && d.marks&toldSince != 0:
		f.Last = min(f.Last, now)
	case d.source != s && d.source != nil:
		return f.Shifted(s.ahead(d.source, f.Last, now)), true
	}
	return f, known
}

// heardByLocked records that a device was heard by a source, which may not be its own: that goes on to
// judge it, and it counts for the silence that it waits for there.
func (d *device) heardByLocked(sh *deviceShard, by *Source, now time.Duration) {
	s := d.source
	if s == nil {
		return
	}
	if s != by {
		now += s.ahead(by, now, s.Time(s.registry.clock.time()))
	}
	_ = s.applyLocked(sh, d, signal{Signal: Signal{At: now}, aside: true}) // never ErrBusy: a heartbeat at the device's own source is deferred
}

// change is what a signal does to a device.
type change struct {
	next     judgement.Condition
	moved    bool // it is judged by another clock
	newEpoch bool // its sessions' number, given elsewhere, rises
	verified bool // it was unverified until now
	replaced bool // a session replaced one that was open
	reported bool // an event is due even if the state stays
}

// verifiedBy reports whether a signal verifies a device that was unverified.
func (d *device) verifiedBy(sig signal) bool { return sig.verifies && d.unverified() }

// replacedBy reports whether a change replaces a session that is open, here or, as far as epochs
// show it, elsewhere.
func (d *device) replacedBy(sig signal, f judgement.Condition, c change) bool {
	if sig.opens != nil {
		return d.session != nil && d.session != sig.opens
	}
	return c.newEpoch && d.epoch != 0 && (f.State == Online || f.State == Late) && f.Reason == NoReason && !c.next.Ending()
}

// attachLocked gives the device the session and the source that it has after a signal.
func (s *Source) attachLocked(d *device, sig signal, c change) {
	switch {
	case c.verified:
		d.marks &^= unverified
	case d.num == 0 && !sig.verifies: // it is new
		d.marks |= unverified
	}
	switch {
	case sig.end && d.session != nil:
		d.session.timer.Store(0)
		d.session = nil
	case sig.opens != nil && d.session != nil && d.session != sig.opens:
		d.endSessionLocked(Peer.Replaced)
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
	session.epoch, session.peer, session.resumed = d.epoch, sig.peer, sig.resumes
	if session != d.session {
		session.pending.Store(d.marks&statePending != 0)
	}
	d.session = session
}

// moveLocked makes another source's clock the one by which the device is judged.
func (d *device) moveLocked(r *Registry, s *Source) {
	r.stopLocked(d)
	d.countLocked(-1)
	r.shards[d.handle%shardCount].endGrantLocked(d)
	r.shards[d.handle%shardCount].endSightingLocked(d)
	dropKept(&r.shards[d.handle%shardCount].ends, d.handle)
	delete(r.shards[d.handle%shardCount].maintained, d.handle)
	d.source = s
	d.marks &^= outlived
	d.countLocked(1)
}

// after returns the condition of a device after the signal.
func (sig signal) after(c judgement.Condition, p Policy) judgement.Condition {
	switch sig.Kind {
	case Sleep:
		return c.Slept(sig.At, max(sig.Length, 0), p)
	case Goodbye:
		return c.Left(sig.At)
	case Disconnected:
		if c.State == NeverSeen {
			return judgement.Condition{Last: sig.At}.Offline(0, sig.Reason)
		}
		if sig.AtOnce {
			p.CloseGrace = 0
		}
		return c.Closed(sig.At, sig.Reason, p)
	case Retained:
		return c.Retained(sig.At, p)
	case Heartbeat, Failure, Start:
	}
	return c.Heard(sig.At, p)
}

// deferred is after while no event can be emitted: the state stays, and
// the rest follows as soon as it can. It returns false for a signal that must be refused instead.
func (sig signal) deferred(c judgement.Condition, p Policy) (judgement.Condition, bool) {
	switch {
	case sig.announces:
	case sig.Kind == Heartbeat:
		return c.Touched(sig.At, p), true
	case sig.Kind == Goodbye:
		return c.Leaving(sig.At), true
	}
	return c, false
}
