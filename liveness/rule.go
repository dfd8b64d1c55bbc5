package liveness

import (
	"time"
	"unique"

	"github.com/holter-iot/holter/liveness/judgement"
)

// rule is the policy that holds for a device, and where its timeout comes from. Rules are interned:
// a fleet has few.
type rule struct {
	Policy

	from      string
	group     *group // nil if no pattern matches the device
	announced Policy
	own       bool          // set at run time
	least     time.Duration // the least deadline that may be learned
}

// Policy implements [operate.Registry].
func (r operator) Policy() Policy { return r.rules.Load().fleet.Complete() }

// resolveLocked returns the rule for a device: its own, then that of the first group whose pattern
// matches, then what its protocol announced, then the fleet's default; field by field. A policy
// that was set at run time overrides the configured one.
func (r *Registry) resolveLocked(sh *deviceShard, id string, announced Policy) unique.Handle[rule] {
	by := r.rules.Load()
	g := by.groupOf(id)
	p, from := by.combineLocked(sh, id, g, announced)
	_, isSet := sh.own[id]
	out := rule{
		Policy: p.Complete(), from: from, group: g, announced: announced, own: isSet,
		least: max(by.least, announced.Timeout, announced.Interval*3/2),
	}
	if out.Learn == judgement.LearnApply {
		r.learning.applies.Store(true)
	}
	return unique.Make(out)
}

// combineLocked returns what the rules say of a device, without the defaults, and where its timeout comes
// from.
func (r *rules) combineLocked(sh *deviceShard, id string, g *group, announced Policy) (p Policy, from string) {
	own := r.calendars.Expecting(r.ownLocked(sh, id))
	var ofGroup Policy
	if g != nil {
		ofGroup = r.calendars.Expecting(g.Policy)
	}
	announced = r.calendars.Expecting(announced)
	p = own.Or(ofGroup).Or(announced).Or(r.fleet)
	if p.Timeout != 0 {
		p.Timeout = max(p.Timeout, r.least)
	}
	switch {
	case own.Timeout != 0:
		from = ofDevice
	case ofGroup.Timeout != 0:
		from = "group " + g.Name
	case announced.Timeout != 0:
		from = "announced"
	default:
		from = "default"
	}
	return p, from
}

// ofDevice is where a timeout comes from that was set for the device.
const ofDevice = "device"

// PolicyOf implements [operate.Registry].
func (r operator) PolicyOf(id string) Policy {
	sh, d, err := r.find(id)
	if err != nil {
		return Policy{}
	}
	defer sh.mu.Unlock()
	return d.rule.Value().Policy
}

// IfAnnounced implements [operate.Registry].
func (r operator) IfAnnounced(id string, p Policy) (current, announced Policy, known bool) {
	sh, d, err := r.find(id)
	if err != nil {
		return current, announced, false
	}
	defer sh.mu.Unlock()
	by, rule := r.rules.Load(), d.rule.Value() // which may be of other rules, while they are being replaced
	current, _ = by.combineLocked(sh, id, rule.group, rule.announced)
	announced, _ = by.combineLocked(sh, id, rule.group, p)
	return current.Complete(), announced.Complete(), d.source != nil
}

// ownLocked returns the policy that was set for a device: at run time, or in the configuration.
func (r *rules) ownLocked(sh *deviceShard, id string) Policy { return sh.own[id].Or(r.own[id]) }

func (r *rules) groupOf(id string) *group {
	for _, g := range r.groups {
		if Match(g.Match, id) {
			return g
		}
	}
	return nil
}

// ParseExpect implements [operate.Registry].
func (r operator) ParseExpect(expression, zone string) (string, error) {
	return r.calendars.ParseExpect(expression, zone)
}
