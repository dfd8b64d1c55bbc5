package mqtt

import (
	"strings"
	"sync"
)

// index finds the subscriptions that match a topic. Filters without wildcards are looked up; the
// others stand in a tree, level by level, which is walked. The zero index is empty.
type index struct {
	mu    sync.RWMutex // guards the fields below, and what they lead to
	exact map[string]*leaf
	root  node
	count int

	changed func(filter string, wanted bool) // is told the first subscription to a filter, and the end of the last; nil: nobody is
}

// node is what the filters with wildcards that begin with the same levels have in common.
type node struct {
	below children[node]
	any   *node // the level +
	here  *leaf // of the filter that ends here
	all   *leaf // of the filter that goes on with #
}

// leaf holds the subscriptions to one filter.
type leaf struct {
	plain  []*subscription
	shares map[string]*group // by name
}

// subscription is what a session has asked for. Only at and entry change.
type subscription struct {
	session              *session
	filter               string // as asked for, with $share/
	detail               *detail
	at                   int32 // its place in the leaf; guarded by index.mu
	identifier           uint32
	qos                  uint8
	noLocal, asPublished bool
	held                 bool // against Config.MaxHeldBytes, also while the client is connected
}

// put adds a subscription, in place of old if the session had one to the same filter.
func (x *index) put(sub, old *subscription) {
	name, filter := splitShare(sub.filter)
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.leafLocked(filter)
	if old == nil {
		x.count++
		x.tellLocked(sub.filter, l.has(name), true)
	}
	if name != "" {
		l.joinLocked(name, sub, old)
		return
	}
	if old != nil {
		sub.at = old.at
		l.plain[sub.at] = sub
		return
	}
	sub.at = int32(len(l.plain))
	l.plain = append(l.plain, sub)
}

// leafLocked returns the leaf of a filter, made if there is none.
func (x *index) leafLocked(filter string) *leaf {
	if !strings.ContainsAny(filter, "+#") {
		l := x.exact[filter]
		if l == nil {
			if x.exact == nil {
				x.exact = make(map[string]*leaf)
			}
			l = &leaf{}
			x.exact[filter] = l
		}
		return l
	}
	at := &x.root
	for {
		part, rest, more := strings.Cut(filter, "/")
		if part == "#" {
			return made(&at.all)
		}
		if at = at.next(part); !more {
			return made(&at.here)
		}
		filter = rest
	}
}

// next returns the node of the next level, made if there is none.
func (n *node) next(part string) *node {
	if part == "+" {
		return made(&n.any)
	}
	next := child(&n.below, part)
	if next == nil {
		next = &node{}
		n.below.put(strings.Clone(part), next)
	}
	return next
}

// made returns what a pointer leads to, made if there is nothing.
func made[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// remove takes a subscription out.
func (x *index) remove(sub *subscription) {
	name, filter := splitShare(sub.filter)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.count--
	switch {
	case strings.ContainsAny(filter, "+#"):
		x.root.remove(filter, name, sub)
	case x.exact[filter].remove(name, sub):
		delete(x.exact, filter)
	}
	if x.changed != nil {
		x.tellLocked(sub.filter, x.findLocked(filter).has(name), false)
	}
}

// tellLocked tells that a filter is wanted, or no longer, unless others want it, too.
func (x *index) tellLocked(filter string, others, wanted bool) {
	if x.changed != nil && !others {
		x.changed(filter, wanted)
	}
}

// has reports whether there are subscriptions to the leaf's filter, those that a group shares if
// that has a name.
func (l *leaf) has(share string) bool {
	switch {
	case l == nil:
		return false
	case share != "":
		return l.shares[share] != nil
	}
	return len(l.plain) > 0
}

// findLocked returns the leaf of a filter; nil if there is none.
func (x *index) findLocked(filter string) *leaf {
	if !strings.ContainsAny(filter, "+#") {
		return x.exact[filter]
	}
	for at := &x.root; at != nil; {
		part, rest, more := strings.Cut(filter, "/")
		if part == "#" {
			return at.all
		}
		if part == "+" {
			at = at.any
		} else {
			at = child(&at.below, part)
		}
		if at != nil && !more {
			return at.here
		}
		filter = rest
	}
	return nil
}

// groupOf returns the group that shares a filter, with its members; without any if there is none.
func (x *index) groupOf(filter string) share {
	name, rest := splitShare(filter)
	x.mu.RLock()
	defer x.mu.RUnlock()
	if l := x.findLocked(rest); l != nil && l.shares[name] != nil {
		return share{l.shares[name], l.shares[name].members}
	}
	return share{}
}

// filters calls f for every filter that somebody subscribes to, once. It holds the lock meanwhile.
func (x *index) filters(f func(string)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, l := range x.exact {
		l.filters(f)
	}
	x.root.filters(f)
}

func (n *node) filters(f func(string)) {
	if n == nil {
		return
	}
	n.here.filters(f)
	n.all.filters(f)
	n.any.filters(f)
	for _, next := range n.below.all() {
		next.filters(f)
	}
}

func (l *leaf) filters(f func(string)) {
	if l == nil {
		return
	}
	if len(l.plain) > 0 {
		f(l.plain[0].filter)
	}
	for _, g := range l.shares {
		f(g.filter)
	}
}

// remove takes a subscription out, and reports whether nothing is left in the node.
func (n *node) remove(filter, share string, sub *subscription) bool {
	part, rest, more := strings.Cut(filter, "/")
	switch {
	case part == "#":
		n.all = n.all.without(share, sub)
	case part == "+":
		if n.any.removeRest(rest, more, share, sub) {
			n.any = nil
		}
	case child(&n.below, part).removeRest(rest, more, share, sub):
		n.below.remove(part)
	}
	return n.empty()
}

func (n *node) empty() bool {
	return n.below.none() && n.any == nil && n.here == nil && n.all == nil
}

func (n *node) removeRest(rest string, more bool, share string, sub *subscription) bool {
	if more {
		return n.remove(rest, share, sub)
	}
	n.here = n.here.without(share, sub)
	return n.empty()
}

// without returns the leaf after a subscription was taken out, nil if it is empty.
func (l *leaf) without(share string, sub *subscription) *leaf {
	if l.remove(share, sub) {
		return nil
	}
	return l
}

// remove takes a subscription out, and reports whether none is left.
func (l *leaf) remove(share string, sub *subscription) bool {
	if share != "" {
		l.quitLocked(share, sub)
	} else {
		last := len(l.plain) - 1
		moved := l.plain[last]
		l.plain[sub.at], moved.at = moved, sub.at
		l.plain[last] = nil
		l.plain = l.plain[:last]
	}
	return len(l.plain) == 0 && len(l.shares) == 0
}

// size returns the number of subscriptions.
func (x *index) size() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.count
}
