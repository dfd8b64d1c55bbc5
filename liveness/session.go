package liveness

import (
	"fmt"
	"strings"
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

// Session is a device's connection to a source. Beat may be called concurrently with everything; the other methods, and opening the
// same Session again, by one goroutine at a time. The zero Session is ready to be opened.
type Session struct {
	timer  atomic.Uint64 // the timer.ID that heartbeats touch, 0 while they have to take the long way
	device *device
	source *Source
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
// session that the device has is replaced. peer may be nil. id may be changed afterwards. Errors: ErrInvalidID, ErrStaleEpoch, ErrFull, a bad announced
// policy; then nothing has changed. It may block while the outbox is full.
func (s *Source) Open(session *Session, id string, h Hello, peer Peer, now time.Duration) (Welcome, error) {
	if err := ValidateID(id); err != nil {
		return Welcome{}, err
	}
	if err := h.Announced.validate(); err != nil {
		return Welcome{}, fmt.Errorf("liveness: announced policy: %w", err)
	}
	r := s.registry
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d := sh.findLocked(id, hash)
	if d == nil {
		var err error
		if d, err = r.addLocked(sh, strings.Clone(id), hash); err != nil {
			return Welcome{}, err
		}
	}
	epoch := h.Epoch
	switch {
	case epoch == 0:
		epoch = d.epoch + 1
	case epoch < d.epoch:
		return Welcome{}, fmt.Errorf("%w: %d, the device had %d", ErrStaleEpoch, epoch, d.epoch)
	}
	before, _ := d.factsLocked()
	replaced := d.session != nil && d.session != session
	if replaced {
		d.session.timer.Store(0)
		if d.session.peer != nil {
			d.session.peer.Replaced()
		}
	}
	session.device, session.source, session.peer, session.epoch = d, s, peer, epoch
	if d.source != s { // its past is on another clock
		r.stopLocked(d)
		before.last = now
	}
	d.source, d.session, d.epoch = s, session, epoch
	d.rule = r.resolve(id, h.Announced)
	r.setLocked(sh, d, before.heard(now), now)
	if replaced {
		r.emitLocked(d, DeviceSessionReplaced, "", now)
	}
	rule := d.rule.Value()
	return Welcome{Epoch: epoch, Policy: rule.Policy, From: rule.from}, nil
}

// ID returns the id of the session's device.
func (s *Session) ID() string { return s.device.id }

// Epoch returns the session's epoch.
func (s *Session) Epoch() uint64 { return s.epoch }

// Beat is a heartbeat, at an instant of the source's listening time. On a device that is online it is one atomic update; otherwise it
// brings the device online. On a session that was replaced it does nothing, and says so by returning false.
func (s *Session) Beat(now time.Duration) bool {
	if s.source.engine.Touch(timer.ID(s.timer.Load()), now) {
		return true
	}
	return s.change(now, func(f facts, _ Policy) (facts, Type, string) { return f.heard(now), noEvent, "" })
}

// Sleep says that the device will be silent for a while, which does not count against it; the policy's SleepLimit bounds it.
// It returns the time that was granted, and false if the session was replaced.
func (s *Session) Sleep(now, length time.Duration) (granted time.Duration, ok bool) {
	ok = s.change(now, func(f facts, p Policy) (facts, Type, string) {
		f = f.slept(now, max(length, 0), p)
		granted = f.until - now
		return f, noEvent, ""
	})
	return granted, ok
}

// Fail reports a failure that the device told of itself. It is a sign of life, and an event with the message.
func (s *Session) Fail(now time.Duration, message string) bool {
	return s.change(now, func(f facts, _ Policy) (facts, Type, string) { return f.heard(now), DeviceFailed, message })
}

// Bye ends the session: the device said goodbye and is offline at once.
func (s *Session) Bye(now time.Duration) bool {
	return s.end(now, func(f facts, _ Policy) (facts, Type, string) { return f.heard(now).offline(Bye), noEvent, "" })
}

// Close ends the session without a goodbye. The device is offline, for the reason why (Closed or Protocol), unless it is back within the
// policy's CloseGrace. On a session that was replaced or has ended it does nothing.
func (s *Session) Close(now time.Duration, why Reason) bool {
	return s.end(now, func(f facts, p Policy) (facts, Type, string) { return f.closed(now, why, p), noEvent, "" })
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

// Repace announces a new policy for the device, as [Hello] does.
func (s *Session) Repace(now time.Duration, announced Policy) (Policy, error) {
	if err := announced.validate(); err != nil {
		return Policy{}, fmt.Errorf("liveness: announced policy: %w", err)
	}
	var p Policy
	s.change(now, func(f facts, _ Policy) (facts, Type, string) {
		s.device.rule = s.source.registry.resolve(s.device.id, announced)
		p = s.device.rule.Value().Policy
		return f.heard(now), noEvent, ""
	})
	return p, nil
}

// noEvent says that there is nothing to report beside the change of state.
const noEvent Type = 255

type changeFunc func(facts, Policy) (facts, Type, string)

// change applies what happened on the session to its device, unless the device has gone over to another session.
func (s *Session) change(now time.Duration, f changeFunc) bool {
	return s.apply(now, f, false)
}

// end is change for the last thing that happens on the session.
func (s *Session) end(now time.Duration, f changeFunc) bool {
	return s.apply(now, f, true)
}

func (s *Session) apply(now time.Duration, f changeFunc, end bool) bool {
	if s.device == nil {
		return false
	}
	r := s.source.registry
	sh, d := r.lock(s.device.handle)
	defer sh.mu.Unlock()
	if d.session != s {
		return false
	}
	if end {
		d.session = nil
		s.timer.Store(0)
	}
	facts, known := d.factsLocked()
	next, extra, message := f(facts, d.rule.Value().Policy)
	if !known && next.state == facts.state && next.last == facts.last {
		d.reason, d.until = next.reason, next.until // the verdict that is on its way takes it into account
		return true
	}
	r.setLocked(sh, d, next, now)
	if extra != noEvent {
		r.emitLocked(d, extra, message, now)
	}
	return true
}
