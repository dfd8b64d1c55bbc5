package liveness

import "time"

// The methods of this file are for sources that do not hold the devices' connections themselves but are told of them, for instance by a
// broker.

// Greet is a heartbeat of a device that has opened a session elsewhere, with the number of that session in h.Epoch; without one it is
// [Source.Beat]. Errors: those of Open.
func (s *Source) Greet(id string, h Hello, now time.Duration) (Welcome, error) {
	var welcome Welcome
	err := s.apply(id, h.Announced, signal{now: now, epoch: h.Epoch}, func(d *device) { welcome = d.welcomeLocked() })
	return welcome, err
}

// Lost says that a device's connection ended elsewhere, for the reason why (Closed, Protocol or Will): the device is offline unless it is
// heard within the policy's CloseGrace. A device that is new is offline at once. epoch is that of the session which ended, 0 if it is not
// known. It does nothing to a device that is heard by another source. Errors: ErrStaleEpoch if the device has had a newer session since;
// those of Beat.
func (s *Source) Lost(id string, epoch uint64, announced Policy, now time.Duration, why Reason) error {
	sh, d, err := s.registry.meet(id, announced)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	if s.elsewhereLocked(d) || d.state == Offline && d.source != s {
		return nil
	}
	sig := signal{kind: hangup, now: now, why: why, epoch: epoch}
	sig.announce(d, announced)
	return s.signLocked(sh, d, sig, nil)
}

// elsewhereLocked reports whether the device is heard by another source.
func (s *Source) elsewhereLocked(d *device) bool {
	return d.session != nil || d.source != nil && d.source != s && !d.source.absent.Load()
}

// Seed says that a device was online when a message was kept that has just been found: that is no heartbeat. A device that is new is taken
// for online, with the time from now on to show it; and so is one that is offline because its connection ended, since what was kept must
// be from later. A device whose Timeout is [Never] has nobody but the keeper to vouch for it, and is heard. Nothing else changes. Errors:
// those of Beat.
func (s *Source) Seed(id string, announced Policy, now time.Duration) error {
	sh, d, err := s.registry.meet(id, announced)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	if s.elsewhereLocked(d) {
		return nil
	}
	sig := signal{kind: retained, now: now}
	sig.announce(d, announced)
	return s.signLocked(sh, d, sig, nil)
}
