package liveness

import (
	"fmt"
	"time"
)

// Beat is a heartbeat of a device that has no session, for instance one that is heard by HTTP. It makes the device if it is new. announced
// is the policy that came with it; the zero Policy leaves what was announced before. The heartbeat of a device that has a session open at
// another source counts there. Errors: ErrInvalidID, ErrFull, a bad policy; then nothing has changed; ErrBusy: then the device counts as heard, no
// more. It takes a lock.
func (s *Source) Beat(id string, announced Policy, now time.Duration) (Welcome, error) {
	var welcome Welcome
	err := s.apply(id, announced, signal{now: now}, func(d *device) { welcome = d.welcomeLocked() })
	return welcome, err
}

// Sleep is like [Source.Beat] and [Session.Sleep].
func (s *Source) Sleep(id string, now, length time.Duration) (granted time.Duration, err error) {
	err = s.apply(id, Policy{}, signal{kind: asleep, now: now, length: length}, func(d *device) { granted = d.until - d.last })
	return granted, err
}

// Fail is like [Source.Beat] and [Session.Fail].
func (s *Source) Fail(id string, now time.Duration, message string) error {
	return s.apply(id, Policy{}, signal{kind: failure, now: now, message: message}, nil)
}

// Bye says that the device goes offline at once. One that is offline already, or was never seen, stays so. Errors:
// ErrUnknownDevice.
func (s *Source) Bye(id string, now time.Duration) error {
	sh, d, err := s.registry.find(id)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	if d.state == Offline || d.state == NeverSeen {
		return nil
	}
	return s.signLocked(sh, d, signal{kind: goodbye, now: now}, nil)
}

// apply applies a signal of the device with an id, which is made if it is new.
func (s *Source) apply(id string, announced Policy, sig signal, look func(*device)) error {
	sh, d, err := s.registry.meet(id, announced)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	sig.announce(d, announced)
	return s.signLocked(sh, d, sig, look)
}

// announce lets the signal carry a policy, unless there is none or the device has it already.
func (sig *signal) announce(d *device, p Policy) {
	if p != (Policy{}) && p != d.rule.Value().announced {
		sig.announced = &p
	}
}

// signLocked applies a signal of a device. What is heard here of one that has a session at another source counts there.
func (s *Source) signLocked(sh *deviceShard, d *device, sig signal, look func(*device)) error {
	if d.session != nil {
		sig.epoch = 0 // its sessions are numbered by another
	}
	if sig.epoch != 0 && sig.epoch < d.epoch {
		return fmt.Errorf("%w: %d, the device has %d", ErrStaleEpoch, sig.epoch, d.epoch)
	}
	by := s
	if d.session != nil && d.source != s {
		by = d.source
		sig.now = by.Time(time.Now())
	}
	return by.applyLocked(sh, d, sig, look)
}

// find returns the device with an id, and locks its shard unless it fails.
func (r *Registry) find(id string) (*deviceShard, *device, error) {
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	if d := sh.findLocked(id, hash); d != nil {
		return sh, d, nil
	}
	sh.mu.Unlock()
	return nil, nil, fmt.Errorf("%w: %q", ErrUnknownDevice, id)
}
