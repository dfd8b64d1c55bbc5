package liveness

import (
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// Config returns what the source was added with.
func (s *Source) Config() SourceConfig { return *s.config.Load() }

// DeviceSilence is what [Registry.Silences] says of a device.
type DeviceSilence struct {
	Num       uint32
	ID, Group string
	// Set is what the rules say of the device, Held the policy that is in force.
	Set, Held Policy
	// Limit is the silence from which its gaps are recorded; 0 if none was yet.
	Limit time.Duration
	// Learned is the deadline that was learned, 0 if there is none, see [Learned].
	Learned time.Duration
	// Sessions: it opened a session once, here or elsewhere. Offline: it is offline.
	Sessions, Offline bool
	// Open is its silence until now, if it was ever heard and has not said goodbye.
	Open judgement.Gap
}

// Silences calls do for each device with a lock held: do must return at once, keep no id, and not ask the
// registry.
func (r *Registry) Silences(do func(*DeviceSilence)) {
	r.each(func(sh *deviceShard, d *device) {
		s := DeviceSilence{
			Num: d.num, ID: d.id, Group: d.group(), Held: d.gracePolicyLocked(), Limit: sh.habit(d).Limit(), Sessions: d.epoch != 0, Offline: d.state == Offline,
		}
		if v := r.learnedLocked(sh, d); !v.Fixed {
			s.Learned = v.Deadline
		}
		s.Set, _ = r.rules.Load().combineLocked(sh, d.id, d.rule.Value().group, d.rule.Value().announced)
		if d.source != nil && (d.state != Offline || d.reason != Bye) {
			f, _ := d.conditionLocked()
			f.Last = d.lastLocked()
			s.Open = r.gapLocked(d, f, max(d.source.Now()-f.Last, 0)).Gap
		}
		do(&s)
	})
}
