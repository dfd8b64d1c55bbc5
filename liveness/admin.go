package liveness

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/operate"
)

// SetPolicy gives a device a policy of its own, which overrides all others, field by field; the
// zero Policy takes it back. A timeout that becomes shorter judges no silence at once, see
// [Registry.Reconfigure]. Errors: ErrUnknownDevice, ErrBusy, a bad policy.
func (r *Registry) SetPolicy(id string, p Policy) error {
	if err := errors.Join(p.ValidateWith(&r.calendars), p.AtLeast(r.rules.Load().least)); err != nil {
		return fmt.Errorf("liveness: policy of device %q: %w", id, err)
	}
	return r.admin(id, func(sh *deviceShard, d *device, now time.Duration) {
		if sh.own[id] == p {
			return
		}
		r.rejudgeLocked(sh, d, func() {
			sh.setOwnLocked(d.id, p)
			d.rule = r.resolveLocked(sh, id, d.rule.Value().announced)
		})
		r.emitLocked(sh, d, DeviceChanged, "", now)
	})
}

// Add makes a device that is NeverSeen until it is heard, with a policy of its own. Errors:
// ErrInvalidID, ErrKnownDevice, ErrFull, ErrBusy, a bad policy.
func (r *Registry) Add(id string, p Policy) error {
	if err := errors.Join(ValidateID(id), p.ValidateWith(&r.calendars), p.AtLeast(r.rules.Load().least)); err != nil {
		return fmt.Errorf("liveness: policy of device %q: %w", id, err)
	}
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case sh.index.find(hash, id) != nil:
		return fmt.Errorf("%w: %q", ErrKnownDevice, id)
	case r.outbox.busy():
		return ErrBusy
	}
	d, err := r.addLocked(sh, id, hash, nil)
	if err != nil {
		return err
	}
	sh.setOwnLocked(d.id, p)
	d.rule = r.resolveLocked(sh, id, Policy{})
	r.emitLocked(sh, d, DeviceChanged, "", 0)
	return nil
}

// OwnPolicy implements [operate.Registry].
func (r operator) OwnPolicy(id string) (Policy, error) {
	sh, _, err := r.find(id)
	if err != nil {
		return Policy{}, err
	}
	defer sh.mu.Unlock()
	return sh.own[id], nil
}

// setOwnLocked stores a device's own policy. It keeps id.
func (sh *deviceShard) setOwnLocked(id string, p Policy) {
	if p == (Policy{}) {
		delete(sh.own, id)
		return
	}
	if sh.own == nil {
		sh.own = make(map[string]Policy)
	}
	sh.own[id] = p
}

// SetMaintenance turns a device's maintenance on or off. A device in maintenance is judged as any
// other, but its events are marked as not to raise an alarm, and its silence is no outage of its
// group. Maintenance windows are independent: neither ends the other. Errors: ErrUnknownDevice, ErrBusy.
func (r *Registry) SetMaintenance(id string, on bool) error {
	return r.admin(id, func(sh *deviceShard, d *device, _ time.Duration) { r.toggleLocked(sh, d, byOperator, on, "") })
}

// Disconnect ends the session of a device; [Peer.Dismissed] is called. The device is offline, for
// the reason [Admin], unless it is back within the policy's CloseGrace. Disconnect reports whether
// there was a session. Errors: ErrUnknownDevice.
func (r *Registry) Disconnect(id string) (bool, error) {
	sh, d, err := r.find(id)
	if err != nil {
		return false, err
	}
	defer sh.mu.Unlock()
	if d.session == nil {
		return false, nil
	}
	s := d.source
	d.endSessionLocked(Peer.Dismissed)
	now := s.Time(r.clock.time())
	return true, s.applyLocked(sh, d, signal{Signal: Signal{Kind: Disconnected, At: now, Reason: Admin}})
}

// Forget removes a device, and ends its session if it has one. A configured device comes back when
// the process starts again. The device's last event is [DeviceForgotten]. If it is heard later, it
// is a new device whose events' numbers go on. Errors: ErrUnknownDevice, ErrBusy.
func (r *Registry) Forget(id string) error {
	return r.admin(id, func(sh *deviceShard, d *device, now time.Duration) { r.forgetLocked(sh, d, "", now) })
}

func (r *Registry) forgetLocked(sh *deviceShard, d *device, message string, now time.Duration) {
	if d.session != nil {
		d.endSessionLocked(Peer.Dismissed)
	}
	r.stopLocked(d)
	d.countLocked(-1)
	was := d.standing()
	d.marks |= forgotten
	r.emitLocked(sh, d, DeviceForgotten, message, now)
	r.regroupLocked(d, was, d.since)
	r.removeLocked(sh, d)
	sh.dropGapsLocked(d.num) // who takes gaps after the number is given to another device takes none of this one
}

// ForgetSilent implements [operate.Registry].
func (r operator) ForgetSilent(from uint64, limit int, verified, unverified operate.Forgetting) (next uint64, forgotten int, err error) {
	next, err = r.walkSome(from, limit, func(sh *deviceShard, d *device) {
		rule := verified
		if d.unverified() {
			rule = unverified
		}
		if rule == (operate.Forgetting{}) || !r.forgettableLocked(sh, d) {
			return
		}
		if now := d.nowLocked(); now-d.lastLocked() >= rule.After {
			r.forgetLocked(sh, d, rule.Message, now)
			forgotten++
		}
	})
	return next, forgotten, err
}

// forgettableLocked reports whether a device is offline, and nobody has named it.
func (r *Registry) forgettableLocked(sh *deviceShard, d *device) bool {
	if d.state != Offline || d.session != nil || d.maintained() {
		return false
	}
	_, configured := r.rules.Load().own[d.id]
	_, set := sh.own[d.id]
	return !configured && !set
}

// unverified reports whether nobody who was heard as the device has shown a proof of that.
func (d *device) unverified() bool { return d.marks&unverified != 0 }

// maxEnded is for how many forgotten devices a shard keeps the number of the last event, so that
// many that come and go take no memory for ever.
const maxEnded = 256

// endLocked keeps the number of a forgotten device's last event, so that no other event ever has
// it. It keeps the latest few of them: when a shard has its share, the greatest number stands for
// all, from which new devices go on.
func (r *Registry) endLocked(sh *deviceShard, id string, seq uint64) {
	if int64(len(sh.ended)) > min(r.rules.Load().capacity/shardCount, maxEnded) {
		for _, n := range sh.ended {
			r.raiseFloor(n)
		}
		sh.ended = nil // a map does not shrink
	}
	if sh.ended == nil {
		sh.ended = make(map[string]uint64)
	}
	sh.ended[id] = seq
}

// endedLocked returns the number of the last event of a forgotten device, or a greater one; 0 if
// there was none.
func (r *Registry) endedLocked(sh *deviceShard, id string) uint64 {
	seq, known := sh.ended[id]
	if !known {
		return r.floor.Load()
	}
	delete(sh.ended, id)
	return seq
}

func (r *Registry) raiseFloor(seq uint64) {
	for {
		if floor := r.floor.Load(); floor >= seq || r.floor.CompareAndSwap(floor, seq) {
			return
		}
	}
}

// removeLocked removes a device from the registry. Its place and its number stay taken until its
// last event is committed.
func (r *Registry) removeLocked(sh *deviceShard, d *device) {
	sh.index.remove(r.hash(d), d, r.hash)
	sh.counts[d.shownLocked()]--
	r.endLocked(sh, strings.Clone(d.id), d.seq)
	delete(sh.own, d.id)
	delete(sh.suppressions, d.id)
	sh.endRunLocked(d)
	sh.endGrantLocked(d)
	sh.endSightingLocked(d)
	dropKept(&sh.ends, d.handle)
	delete(sh.maintained, d.handle)
	r.flaps.set(d.handle, false)
	r.devices.Add(-1)
	r.quotaOf(d).release()
}

// admin makes a change to a device that causes an event, at the present of its source.
func (r *Registry) admin(id string, do func(sh *deviceShard, d *device, now time.Duration)) error {
	sh, d, err := r.find(id)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	if r.outbox.busy() {
		return ErrBusy
	}
	do(sh, d, d.nowLocked())
	return nil
}

// nowLocked returns the present of the device's source, 0 if it has none.
func (d *device) nowLocked() time.Duration {
	if d.source == nil {
		return 0
	}
	return max(d.source.Now(), d.lastLocked())
}
