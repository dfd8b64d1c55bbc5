package liveness

import (
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// Apply applies a signal of the device with an id, which it makes if it is new. What is heard here
// of a device that has a session open at another source counts there. Errors: ErrInvalidID,
// ErrFull, a bad policy, ErrStaleEpoch for an Epoch less than the device's; then nothing has
// changed. ErrBusy; then the device counts as heard if the signal came from it, no more. Apply
// takes a lock.
func (s *Source) Apply(id string, sig Signal) (Welcome, error) {
	sh, d, err := s.deviceOf(id, sig)
	if err != nil {
		return Welcome{}, err
	}
	defer sh.mu.Unlock()
	if !s.ignoresLocked(d, sig.Kind) {
		if err := s.signLocked(sh, d, sig); err != nil {
			return Welcome{}, err
		}
	}
	return d.welcomeLocked(), nil
}

// deviceOf returns the device of a signal, and locks its shard unless it fails. A goodbye makes no
// device.
func (s *Source) deviceOf(id string, sig Signal) (*deviceShard, *device, error) {
	if sig.Kind == Goodbye {
		return s.registry.find(id)
	}
	return s.registry.findOrAdd(id, sig.Announced, nil)
}

// ignoresLocked reports whether a kind of signal changes nothing about a device.
func (s *Source) ignoresLocked(d *device, kind Kind) bool {
	elsewhere := d.session != nil || d.source != nil && d.source != s && d.source.phase().present()
	switch kind {
	case Goodbye:
		return d.state == Offline || d.state == NeverSeen
	case Disconnected:
		return elsewhere || d.state == Offline && d.source != s
	case Retained:
		return elsewhere
	case Heartbeat, Sleep, Failure, Start:
	}
	return false
}

// signLocked applies a signal, at the source where the device has a session if that is another.
func (s *Source) signLocked(sh *deviceShard, d *device, said Signal) error {
	if d.session != nil {
		said.Epoch = 0 // where the session is open, its epochs are numbered
	}
	if said.Epoch != 0 && said.Epoch < d.epoch {
		return fmt.Errorf("%w: %d, the device has %d", ErrStaleEpoch, said.Epoch, d.epoch)
	}
	by := s
	if d.session != nil && d.source != s {
		by = d.source
		said.At = by.Time(s.registry.clock.time())
	}
	announces := said.Kind != Goodbye && said.Announced != (Policy{}) && said.Announced != d.rule.Value().announced
	return by.applyLocked(sh, d, signal{Signal: said, announces: announces, verifies: !said.Unverified})
}

// find returns the device with an id, and locks its shard unless it fails.
func (r *Registry) find(id string) (*deviceShard, *device, error) {
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	if d := sh.index.find(hash, id); d != nil {
		return sh, d, nil
	}
	sh.mu.Unlock()
	return nil, nil, fmt.Errorf("%w: %q", ErrUnknownDevice, id)
}

// Belated implements [operate.Owner].
func (s owner) Belated(id string, now time.Time, age time.Duration) {
	sh, d, err := s.registry.find(id)
	if err != nil {
		return
	}
	defer sh.mu.Unlock()
	by, silent := d.source, d.state == Sleeping || d.state == Offline
	if by == nil {
		return
	}
	last := d.lastLocked()
	if !by.phase().present() { // its clock may not show yet what it shows once it goes on
		if silent {
			return
		}
		by, last = s.Source, 0
	}
	past := by.pastOf(now)
	if silent { // before its latest gap, a source's clock is not exact
		last = max(last+sameHeard, past.listened+judgement.HeardTick)
	}
	if at := keep.Round(past.At(age)); at > last {
		_ = by.applyLocked(sh, d, signal{Signal: Signal{At: at}}) // ErrBusy is for devices of which an event would tell
	}
}

// wanders reports whether a device that has another session is heard by this source, and needs no
// connection: then it has the same session here.
func (s *Source) wanders(d *device, session *Session) bool {
	other := d.session
	return session != nil && other != nil && other != session && (other.source == s || s.besides(other.source)) && s.wandersTo(other.source)
}
