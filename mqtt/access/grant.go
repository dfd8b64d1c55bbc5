package access

import (
	"slices"
	"strings"
)

// proof is how a client has proved who it is.
type proof uint8

const (
	byNothing proof = iota
	byPassword
	byToken
	byCertificate
)

// Grant is what a client is allowed. It never changes, and its methods may be called concurrently.
// Clients for which all is the same share one: all that are anonymous, and all with the same user
// name and password, unless a rule that applies to them says %c.
type Grant struct {
	access  *Access
	account *account // whose password was right; nil if none was
	role    *role    // nil: everything is allowed
	names   names
	by      proof
}

// User returns the name that the client has proved, "" if it is anonymous.
func (g *Grant) User() string { return g.names.user }

// Proved reports whether the client has shown who it is, by a password, a token or a certificate.
// It is false if it is anonymous.
func (g *Grant) Proved() bool { return g.by != byNothing }

// Bound reports whether rules with client ids apply to the client: they let it have its own.
func (g *Grant) Bound() bool { return g.role.binds() }

// MayPublish reports whether the client may publish to a topic, which must be a valid one. It
// allocates nothing; it takes some nanoseconds for each filter of the rules that apply.
func (g *Grant) MayPublish(topic string) bool {
	if g.role == nil {
		return true
	}
	var p path
	p.read(topic)
	common, own := g.role.common, g.role.own
	if denies(common.denyPublish, "", &p, &g.names) || denies(own.denyPublish, "", &p, &g.names) {
		return false
	}
	return allows(common.publish, "", &p, &g.names) || allows(own.publish, "", &p, &g.names)
}

// MaySubscribe reports whether the client may subscribe to a topic filter: one filter of the rules
// allows every topic that it can match, and none denies any of them. A shared subscription,
// $share/GROUP/FILTER, is judged by its FILTER, and its GROUP by rules that name one. It is false
// for what is not a valid filter.
func (g *Grant) MaySubscribe(filter string) bool {
	group, topics, err := splitShared(filter)
	if err != nil || checkFilter(topics) != nil {
		return false
	}
	if g.role == nil {
		return true
	}
	var p path
	p.read(topics)
	common, own := g.role.common, g.role.own
	if denies(common.denySubscribe, group, &p, &g.names) || denies(own.denySubscribe, group, &p, &g.names) {
		return false
	}
	return allows(common.subscribe, group, &p, &g.names) || allows(own.subscribe, group, &p, &g.names)
}

// Valid reports whether the client would still be allowed the same: its user is still in the users
// file, with the same password, and the rules that apply to it are the same. If not, it is to be
// disconnected, or gets a new grant from [Access.Renew]. A token or a certificate that was revoked
// does not count here: who has checked it notices that. It takes less than 100 ns.
func (g *Grant) Valid() bool {
	s := g.access.state.Load()
	return g.holds(s) && s.rules.role(g.names.user, g.Proved()).same(g.role)
}

// holds reports whether the client's proof still is one.
func (g *Grant) holds(s *state) bool {
	switch g.by {
	case byPassword:
		return s.users.find(g.names.user) == g.account
	case byToken:
		return s.users.find(g.names.user) == nil // else the users file decides
	default:
		return true
	}
}

// allows reports whether one of the filters allows all topics that p stands for. group is that of a
// shared subscription, "" for others.
func allows(filters []filter, group string, p *path, n *names) bool {
	for i := range filters {
		f := &filters[i]
		if n.fill(f.needs) && f.forGroup(group, n) && f.contains(p, n) {
			return true
		}
	}
	return false
}

// denies reports whether one of the filters denies a topic that p stands for. One that the client's
// names cannot fill denies all.
func denies(filters []filter, group string, p *path, n *names) bool {
	for i := range filters {
		f := &filters[i]
		if !n.fill(f.needs) || f.forGroup(group, n) && f.overlaps(p, n) {
			return true
		}
	}
	return false
}

// names are what %u and %c stand for.
type names struct {
	user, client string
	unfit        placeholders // which of them cannot be a part of a topic level
}

func newNames(user, client string) names {
	n := names{user: user, client: client}
	if !fits(user) {
		n.unfit |= needsUser
	}
	if !fits(client) {
		n.unfit |= needsClient
	}
	return n
}

// fits reports whether a name can be a part of a topic level: it adds no level, no wildcard, and
// makes no topic of the server's own. With an empty name, %u/# would stand for all topics that
// begin with a slash.
func fits(name string) bool {
	return name != "" && name[0] != '$' && !strings.ContainsAny(name, "/+#")
}

// fill reports whether the names can fill a pattern that needs some of them.
func (n *names) fill(needs placeholders) bool { return n.unfit&needs == 0 }

// role is the rules that apply to a user. A nil role allows everything.
type role struct {
	common, own *bundle // those for all who are like it, and those for it
}

// bundle is some rules in one.
type bundle struct {
	rule

	rules []*rule
}

func newBundle(rules []*rule) *bundle {
	b := &bundle{rules: rules}
	for _, r := range rules {
		b.clientIDs = append(b.clientIDs, r.clientIDs...)
		b.publish = append(b.publish, r.publish...)
		b.subscribe = append(b.subscribe, r.subscribe...)
		b.denyPublish = append(b.denyPublish, r.denyPublish...)
		b.denySubscribe = append(b.denySubscribe, r.denySubscribe...)
		b.needs |= r.needs
	}
	return b
}

// same reports whether two roles have the same rules.
func (r *role) same(other *role) bool {
	if r == other || r == nil || other == nil {
		return r == other
	}
	return slices.Equal(r.common.rules, other.common.rules) && slices.Equal(r.own.rules, other.own.rules)
}

// perClient reports whether what is allowed depends on the client id.
func (r *role) perClient() bool { return r != nil && (r.common.needs|r.own.needs)&needsClient != 0 }

// binds reports whether the role has rules with client ids.
func (r *role) binds() bool { return r != nil && len(r.common.clientIDs)+len(r.own.clientIDs) > 0 }

// mayUse reports whether the user of the role may use a client id.
func (r *role) mayUse(user, clientID string) bool {
	if !r.binds() {
		return true
	}
	matches := func(p idPattern) bool { return p.matches(user, clientID) }
	return slices.ContainsFunc(r.common.clientIDs, matches) || slices.ContainsFunc(r.own.clientIDs, matches)
}
