package liveness

import "time"

// Outages returns how the outages of a group are defined, with the defaults; false if there is no such
// group.
func (r *Registry) Outages(name string) (OutageConfig, bool) {
	for _, g := range r.rules.Load().groups {
		if g.Name == name {
			return g.Outage, true
		}
	}
	return OutageConfig{}, false
}

// GroupReplay counts the outages that a group would have had, by the functions that report them. Its
// devices fall silent and return in order of time. It is not safe for concurrent use.
type GroupReplay struct{ group *group }

// NewGroupReplay returns one of a group of members that are online. Zero fields of c have the defaults.
func NewGroupReplay(c OutageConfig, members int) *GroupReplay {
	g := newGroup(GroupConfig{Outage: c})
	g.whole, g.members = true, members
	return &GroupReplay{g}
}

// Fall says that a member fell silent. It reports whether the group has an outage then.
func (g *GroupReplay) Fall(at time.Time) (outage bool) {
	return g.change(standing{member: true}, at, standing{member: true, silent: true}, at)
}

// Return says that a member which fell silent is back. It reports whether the group has an outage then.
func (g *GroupReplay) Return(fell, at time.Time) (outage bool) {
	return g.change(standing{member: true, silent: true}, fell, standing{member: true}, at)
}

func (g *GroupReplay) change(was standing, since time.Time, is standing, now time.Time) (outage bool) {
	g.group.change(was, since.UnixNano(), is, now.UnixNano(), now.UnixNano(), nil)
	return g.group.outage
}

// Changes returns how many outages began, and how many ended, together.
func (g *GroupReplay) Changes() int { return int(g.group.seq) }
