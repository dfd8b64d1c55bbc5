package liveness

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/timer"
)

// Peer is the far end of a session, at the edge that opened it. Its methods are called with a lock of the registry held: they must
// return at once, and call nothing of the registry.
type Peer interface {
	// Replaced is called when the device came back on another session.
	Replaced()
	// Judged is called when the device was judged offline while the session was open.
	Judged()
}

// Session is a device's connection to a source. Beat may be called concurrently with everything but its first opening and one at
// another source; the other methods, and opening the same Session again, by one goroutine at a time. The zero Session is ready to be
// opened. One that is open for a device can be opened for that device only; once closed or replaced, for any.
type Session struct {
	timer  atomic.Uint64 // the timer.ID that heartbeats touch, 0 while they have to take the long way
	source *Source       // next to it: a heartbeat reads these two
	device *device
	peer   Peer
	epoch  uint64
}

// Hello is what a device says of itself when it opens a session.
type Hello struct {
	// Epoch numbers the device's sessions, if it does so itself; it must not fall. 0: the registry numbers them.
	Epoch uint64
	// Announced is the policy that the protocol carries, for instance a keep alive. It yields to configured ones.
	Announced Policy
}

// Welcome is what the registry answers.
type Welcome struct {
	Epoch  uint64
	Policy Policy // complete
	From   string // the rule that Policy.Timeout is from
}

// Open opens a session of the device with an id, at an instant of the source's listening time, and counts as a sign of life. Another
// session that the device has is replaced. peer may be nil. id may be changed afterwards. Errors: ErrInvalidID, ErrStaleEpoch,
// ErrFull, a bad announced policy, a session that is open for another device; then nothing has changed. It may block while the
// outbox is full.
func (s *Source) Open(session *Session, id string, h Hello, peer Peer, now time.Duration) (Welcome, error) {
	if err := ValidateID(id); err != nil {
		return Welcome{}, err
	}
	if err := h.Announced.validate(); err != nil {
		return Welcome{}, fmt.Errorf("liveness: announced policy: %w", err)
	}
	if session.device != nil && session.device.id != id && session.open() {
		return Welcome{}, fmt.Errorf("liveness: the session is open for device %q", session.device.id)
	}
	r := s.registry
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d := sh.findLocked(id, hash)
	if d == nil {
		var err error
		if d, err = r.addLocked(sh, id, hash); err != nil {
			return Welcome{}, err
		}
	}
	epoch, err := d.epochLocked(h.Epoch)
	if err != nil {
		return Welcome{}, err
	}
	d.epoch, session.epoch, session.peer = epoch, epoch, peer
	d.rule = r.resolve(id, h.Announced)
	s.attachLocked(sh, d, session, now)
	rule := d.rule.Value()
	return Welcome{Epoch: epoch, Policy: rule.Policy, From: rule.from}, nil
}

// epochLocked returns the epoch of the device's next session, which said one of its own or 0.
func (d *device) epochLocked(said uint64) (uint64, error) {
	switch {
	case said == 0:
		return max(d.epoch+1, d.epoch), nil // the last one there is stays
	case said < d.epoch:
		return 0, fmt.Errorf("%w: %d, the device had %d", ErrStaleEpoch, said, d.epoch)
	}
	return said, nil
}

// attachLocked makes a session the device's.
func (s *Source) attachLocked(sh *deviceShard, d *device, session *Session, now time.Duration) {
	r := s.registry
	before, _ := d.factsLocked()
	replaced := d.session != nil && d.session != session
	if replaced {
		d.session.timer.Store(0)
		if d.session.peer != nil {
			d.session.peer.Replaced()
		}
	}
	if session.device != d || session.source != s { // else a heartbeat may be reading them
		session.device, session.source = d, s
	}
	if d.source != s { // its past is on another clock
		r.stopLocked(d)
		before.last = now
	}
	d.source, d.session = s, session
	r.setLocked(sh, d, before.heard(now), now)
	if replaced {
		r.emitLocked(d, DeviceSessionReplaced, "", now)
	}
}

// ID returns the id of the session's device.
func (s *Session) ID() string { return s.device.id }

// Epoch returns the session's epoch.
func (s *Session) Epoch() uint64 { return s.epoch }

// Beat is a heartbeat, at an instant of the source's listening time. On a device that is online it is one atomic update; otherwise it
// brings the device online. On a session that was replaced it does nothing, and says so by returning false.
func (s *Session) Beat(now time.Duration) bool {
	if id := timer.ID(s.timer.Load()); id != 0 && s.source.engine.Touch(id, now) {
		return true
	}
	return s.apply(change{now: now, to: func(f facts, _ Policy) facts { return f.heard(now) }})
}

// Sleep says that the device will be silent for a while, which does not count against it; the policy's SleepLimit bounds it.
// It returns the time that was granted, and false if the session was replaced.
func (s *Session) Sleep(now, length time.Duration) (granted time.Duration, ok bool) {
	ok = s.apply(change{now: now, to: func(f facts, p Policy) facts {
		f = f.slept(now, max(length, 0), p)
		granted = f.until - f.last
		return f
	}})
	return granted, ok
}

// Fail reports a failure that the device told of itself. It is a sign of life, and an event with the message.
func (s *Session) Fail(now time.Duration, message string) bool {
	return s.apply(change{
		now: now, to: func(f facts, _ Policy) facts { return f.heard(now) },
		failed: true, message: message,
	})
}

// Bye ends the session: the device said goodbye and is offline at once. If it was offline already, it came back to say so.
func (s *Session) Bye(now time.Duration) bool {
	if s.Judged() {
		s.Beat(now)
	}
	return s.apply(change{now: now, to: func(f facts, _ Policy) facts { return f.heard(now).offline(0, Bye) }, end: true})
}

// Close ends the session without a goodbye. The device is offline, for the reason why (Closed or Protocol), unless it is back within the
// policy's CloseGrace. On a session that was replaced or has ended it does nothing.
func (s *Session) Close(now time.Duration, why Reason) bool {
	return s.apply(change{now: now, to: func(f facts, p Policy) facts { return f.closed(now, why, p) }, end: true})
}

// open says whether the session is its device's.
func (s *Session) open() bool {
	sh, d := s.source.registry.lock(s.device.handle)
	defer sh.mu.Unlock()
	return d.session == s
}

// Judged says whether the session is the one of an offline device. It takes a lock.
func (s *Session) Judged() bool {
	if s.device == nil {
		return false
	}
	sh, d := s.source.registry.lock(s.device.handle)
	defer sh.mu.Unlock()
	return d.session == s && d.state == Offline
}

// Repace announces a new policy for the device, as [Hello] does, and returns the one that holds from now on. It is a sign of life. On
// a session that was replaced it does nothing and returns the zero Policy.
func (s *Session) Repace(now time.Duration, announced Policy) (Policy, error) {
	if err := announced.validate(); err != nil {
		return Policy{}, fmt.Errorf("liveness: announced policy: %w", err)
	}
	var p Policy
	s.apply(change{now: now, to: func(f facts, _ Policy) facts {
		s.device.rule = s.source.registry.resolve(s.device.id, announced)
		p = s.device.rule.Value().Policy
		return f.heard(now)
	}})
	return p, nil
}

// change is what happens on a session.
type change struct {
	now     time.Duration
	to      func(facts, Policy) facts
	end     bool // it is the last
	failed  bool // the device told of a failure
	message string
}

// apply applies what happened to the device, unless the device has gone over to another session.
func (s *Session) apply(c change) bool {
	if s.device == nil {
		return false
	}
	r := s.source.registry
	sh, d := r.lock(s.device.handle)
	defer sh.mu.Unlock()
	if d.session != s {
		return false
	}
	if c.end {
		d.session = nil
		s.timer.Store(0)
	}
	facts, known := d.factsLocked()
	next := c.to(facts, d.rule.Value().Policy)
	if !known && next.state == facts.state && next.last == facts.last {
		d.reason, d.until = next.reason, next.until // the verdict that is on its way takes it into account
	} else {
		r.setLocked(sh, d, next, c.now)
	}
	if c.failed {
		r.emitLocked(d, DeviceFailed, c.message, c.now)
	}
	return true
}
