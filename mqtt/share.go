package mqtt

import (
	"slices"
	"strings"
	"sync/atomic"
)

// group is a group of sessions that share a subscription: each message goes to one of them (MQTT 5,
// 4.8.2).
type group struct {
	filter  string          // with $share/
	next    atomic.Uint32   // whose turn it is
	members []*subscription // only appended to, else replaced: who has a copy may read it; guarded by index.mu
}

// splitShare splits the filter of a shared subscription. name is "" for one that is not shared.
func splitShare(filter string) (name, rest string) {
	if after, ok := strings.CutPrefix(filter, "$share/"); ok {
		name, rest, _ = strings.Cut(after, "/")
		return name, rest
	}
	return "", filter
}

func indexLevel(s string) int {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return i
	}
	return len(s)
}

// joinLocked adds a member to a group, in place of old if that is not nil.
func (l *leaf) joinLocked(name string, sub, old *subscription) {
	g := l.shares[name]
	if g == nil {
		if l.shares == nil {
			l.shares = make(map[string]*group)
		}
		g = &group{filter: sub.filter}
		l.shares[name] = g
	}
	sub.detail = sub.detail.in(g)
	if old == nil {
		g.members = append(g.members, sub)
		return
	}
	g.members = slices.Clone(g.members)
	g.members[slices.Index(g.members, old)] = sub
}

// quitLocked removes a member from a group.
func (l *leaf) quitLocked(name string, sub *subscription) {
	g := l.shares[name]
	g.members = slices.DeleteFunc(slices.Clone(g.members), func(m *subscription) bool { return m == sub })
	if len(g.members) == 0 {
		delete(l.shares, name)
	}
}

// membersOf returns the members of a group now.
func (x *index) membersOf(g *group) share {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return share{g, g.members}
}
