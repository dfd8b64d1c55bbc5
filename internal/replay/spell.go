package replay

import (
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// A device that has to send several heartbeats in a row before it is online again, see
// [liveness.Policy.RecoverAfter], may be offline when a silence begins, by some policies that a question tries and
// not by others: then it is not judged again. All silences of such a device are recorded, so that the heartbeats
// can be counted.

// The policies that a question tries, by position in spell.heard.
const (
	byHeld = iota
	byLearned
	byValue // the first of the values
)

// spell is the time in which a device is offline, by one policy at least.
type spell struct {
	heard []uint8   // by policy: 0 if the device is online; else 1, and how often in a row it was heard
	at    time.Time // when it was heard last
	fall  int       // position of its fall in replay.falls and 1; 0 if it has none
}

// sameHeard is how far apart a silence ends and the next one begins at most if one heartbeat is between them.
const sameHeard = 10 * time.Millisecond

// by returns what spell.heard says of a policy.
func (d *device) by(policy int) uint8 {
	if d.spell == nil {
		return 0
	}
	return d.spell.heard[policy]
}

// goOn ends the spell of a device unless a silence follows right after the one before: else it sent more heartbeats
// than are known, or announced a sleep, and is online.
func (r *replay) goOn(d *device, c *silence, start time.Time) {
	x := d.spell
	if x == nil {
		return
	}
	apart := c.gap.Start - d.last
	if d.source != c.source {
		apart = start.Sub(x.at)
	}
	if apart.Abs() > sameHeard || c.gap.Slept > 0 {
		r.endSpell(d)
	}
}

// endSpell ends the spell of a device that is online.
func (r *replay) endSpell(d *device) {
	for policy, heard := range d.spell.heard {
		if heard > 0 {
			r.tally(policy).notifications++
		}
	}
	r.back(d, d.spell.at)
	d.spell = nil
}

// tally returns the tally of a policy.
func (r *replay) tally(policy int) *tally {
	switch policy {
	case byHeld:
		return &r.today
	case byLearned:
		return &r.learned
	}
	return &r.values[policy-byValue]
}

// outcome returns what a policy says of a silence.
func (r *replay) outcome(d *device, c *silence, policy int, p *liveness.Policy) outcome {
	if heard := d.by(policy); heard > 0 {
		return outcome{real: c.real, returned: r.recovers(d, c, policy, p, int(heard-1))}
	}
	j, over := r.judgeBy(c, p), c.gap.End != judgement.EndOpen
	if j.Offline == 0 {
		return outcome{judgement: j, real: c.real}
	}
	if over && p.RecoverAfter > 1 {
		if d.spell == nil {
			d.spell = &spell{heard: make([]uint8, byValue+len(r.values))}
		}
		d.spell.hear(c.gap, policy, 1)
		over = false
	}
	return outcome{judgement: j, real: c.real || j.Reason != liveness.Silence, returned: over}
}

// recovers reports whether a device is online when a silence is over; when that began it was offline by a policy, and
// had been heard some times in a row.
func (r *replay) recovers(d *device, c *silence, policy int, p *liveness.Policy, heard int) bool {
	switch c.gap.End {
	case judgement.EndOpen:
		return false
	case judgement.EndBye:
	default:
		heard = r.judges.Recovering(c.gap, p, c.source.grace(*p), c.breaks, heard)
		if heard == 0 {
			d.spell.heard[policy] = 0
			return true
		}
	}
	d.spell.hear(c.gap, policy, heard)
	return false
}

// hear notes that a device which goes on to be offline by a policy was heard some times in a row when a silence is
// over. After a goodbye the count begins anew.
func (x *spell) hear(g *judgement.Gap, policy, heard int) {
	if g.End == judgement.EndBye {
		heard = 0
	}
	x.heard[policy], x.at = uint8(heard)+1, g.At
}

// fall notes that today's policy has judged a member of a group, or that it is back.
func (r *replay) fall(d *device, c *silence, today *outcome) {
	if offline := today.judgement.Offline; offline > 0 && c.counts {
		r.falls = append(r.falls, c.fall(d, offline))
		if d.spell != nil {
			d.spell.fall = len(r.falls)
		}
	}
	if today.returned {
		r.back(d, c.gap.At)
	}
}

// back notes that a member of a group is online again.
func (r *replay) back(d *device, at time.Time) {
	if d.spell != nil && d.spell.fall > 0 {
		r.falls[d.spell.fall-1].back, d.spell.fall = at, 0
	}
}
