package liveness

import (
	"fmt"
	"time"
)

// Beat is a heartbeat of a device that has no session, for instance one that is heard by HTTP. It makes the device if it is new. announced
// is the policy that came with it; the zero Policy leaves what was announced before. The heartbeat of a device that has a session open at
// another source counts there. Errors: ErrInvalidID, ErrFull, ErrBusy, a bad policy; then nothing has changed. It takes a lock.
func (s *Source) Beat(id string, announced Policy, now time.Duration) (Welcome, error) {
	var welcome Welcome
	c := beat(now)
	c.then = func(d *device) { welcome = d.welcomeLocked() }
	err := s.sign(id, announced, c)
	return welcome, err
}

// Sleep is like [Source.Beat] and [Session.Sleep].
func (s *Source) Sleep(id string, now, length time.Duration) (granted time.Duration, err error) {
	err = s.sign(id, Policy{}, sleep(now, length, &granted))
	return granted, err
}

// Fail is like [Source.Beat] and [Session.Fail].
func (s *Source) Fail(id string, now time.Duration, message string) error {
	return s.sign(id, Policy{}, fail(now, message))
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
	return s.signLocked(sh, d, bye(now))
}

// sign applies a sign of life of the device with an id.
func (s *Source) sign(id string, announced Policy, c change) error {
	r := s.registry
	sh, d, err := r.meet(id, announced)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	if announced != (Policy{}) && announced != d.rule.Value().announced {
		c.announced, c.late, c.quick = &announced, nil, false
	}
	return s.signLocked(sh, d, c)
}

// signLocked applies a sign of life of a device.
func (s *Source) signLocked(sh *deviceShard, d *device, c change) error {
	r := s.registry
	if d.session != nil {
		c.epoch = 0 // its sessions are numbered by another
	}
	if c.epoch != 0 && c.epoch < d.epoch {
		return fmt.Errorf("%w: %d, the device has %d", ErrStaleEpoch, c.epoch, d.epoch)
	}
	if d.source != s && d.session == nil { // it comes over
		rule := d.rule
		if c.announced != nil {
			rule = r.resolveLocked(sh, d.id, *c.announced)
		}
		if d.state != NeverSeen && r.outbox.busy() {
			return ErrBusy
		}
		d.epoch = max(d.epoch, c.epoch)
		s.attachLocked(sh, d, nil, rule, c.now)
	} else if d.source != s {
		c.now = d.source.Time(time.Now())
	}
	return r.applyLocked(sh, d, c)
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
