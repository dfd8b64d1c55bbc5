package mqtt

import (
	"bytes"
	"cmp"
	"slices"
)

// matches are the subscriptions that match a topic. It is used again and again.
type matches struct {
	plain  []*subscription
	leaves int // that plain comes from
	shares []share
}

// share is a group of shared subscriptions with its members at an instant.
type share struct {
	group   *group
	members []*subscription
}

// match adds the subscriptions that match a topic (MQTT 5, 4.7).
func (x *index) match(topic []byte, found *matches) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if l := x.exact[string(topic)]; l != nil {
		found.add(l)
	}
	x.root.match(topic, true, topic[0] == '$', found)
}

// match adds the subscriptions below a node. more says that there is a rest of the topic, and
// hidden that wildcards do not match its first level.
func (n *node) match(rest []byte, more, hidden bool, found *matches) {
	if n.all != nil && !hidden { // a/# matches a, too
		found.add(n.all)
	}
	if !more {
		if n.here != nil {
			found.add(n.here)
		}
		return
	}
	if n.any == nil && n.below.none() {
		return
	}
	var part []byte
	if i := bytes.IndexByte(rest, '/'); i >= 0 {
		part, rest = rest[:i], rest[i+1:]
	} else {
		part, more = rest, false
	}
	if n.any != nil && !hidden {
		n.any.match(rest, more, false, found)
	}
	if next := child(&n.below, part); next != nil {
		next.match(rest, more, false, found)
	}
}

func (f *matches) add(l *leaf) {
	if len(l.plain) > 0 {
		f.plain = append(f.plain, l.plain...)
		f.leaves++
	}
	for _, g := range l.shares {
		f.shares = append(f.shares, share{g, g.members})
	}
}

// group brings the subscriptions of each session together.
func (f *matches) group() {
	if f.leaves > 1 {
		slices.SortFunc(f.plain, func(a, b *subscription) int { return cmp.Compare(a.session.number, b.session.number) })
	}
}

// first returns how many subscriptions at the beginning of subs are of the same session.
func first(subs []*subscription) int {
	n := 1
	for n < len(subs) && subs[n].session == subs[0].session {
		n++
	}
	return n
}

// maxFound is how many subscriptions a matches may remember the room for.
const maxFound = 16 << 10

func (f *matches) clear() {
	clear(f.plain)
	clear(f.shares)
	if f.plain, f.shares, f.leaves = f.plain[:0], f.shares[:0], 0; cap(f.plain) > maxFound {
		f.plain = nil
	}
}

// matchesFilter reports whether a filter, not a shared one, matches a topic.
func matchesFilter(filter, topic string) bool {
	if topic[0] == '$' && (filter[0] == '+' || filter[0] == '#') {
		return false
	}
	for {
		if filter == "#" {
			return true
		}
		i, j := indexLevel(filter), indexLevel(topic)
		if part := filter[:i]; part != "+" && part != topic[:j] {
			return false
		}
		switch {
		case i == len(filter) && j == len(topic):
			return true
		case j == len(topic):
			return filter[i:] == "/#"
		case i == len(filter):
			return false
		}
		filter, topic = filter[i+1:], topic[j+1:]
	}
}
