package access

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxTopic is the longest topic or filter, in bytes.
	maxTopic = 65535
	// maxLevels is how many levels a filter of a rule may have, besides #.
	maxLevels = 32
)

// placeholders is a set of them.
type placeholders uint8

const (
	needsUser   placeholders = 1 << iota // %u
	needsClient                          // %c
)

// template is a text in which placeholders may stand.
type template []part

// part is a placeholder, or a literal.
type part struct {
	literal string
	name    placeholders // one, or 0 for a literal
}

// parseTemplate reads %u, %c and %% in a text.
func parseTemplate(s string) (t template, needs placeholders, err error) {
	plain := ""
	for {
		before, rest, found := strings.Cut(s, "%")
		if plain += before; !found {
			break
		}
		name := placeholders(0)
		switch {
		case strings.HasPrefix(rest, "u"):
			name = needsUser
		case strings.HasPrefix(rest, "c"):
			name = needsClient
		case strings.HasPrefix(rest, "%"):
			plain += "%"
		default:
			return nil, 0, errors.New("a % is followed by u (the user), c (the client id), or another % that stands for itself")
		}
		if s = rest[1:]; name == 0 {
			continue
		}
		if plain != "" {
			t = append(t, part{literal: plain})
			plain = ""
		}
		t = append(t, part{name: name})
		needs |= name
	}
	if plain != "" {
		t = append(t, part{literal: plain})
	}
	return t, needs, nil
}

// cut removes the text from the beginning of s. ok is false if it does not stand there.
func (t template) cut(s string, user, client string) (rest string, ok bool) {
	for _, p := range t {
		want := p.literal
		switch p.name {
		case needsUser:
			want = user
		case needsClient:
			want = client
		}
		if s, ok = strings.CutPrefix(s, want); !ok {
			return "", false
		}
	}
	return s, true
}

// is reports whether the text is s.
func (t template) is(s string, n *names) bool {
	rest, ok := t.cut(s, n.user, n.client)
	return ok && rest == ""
}

// idPattern is a pattern of client ids.
type idPattern struct {
	text   template
	prefix bool // there is a * behind the text
	needs  placeholders
}

func parseIDPattern(s string) (p idPattern, err error) {
	s, p.prefix = strings.CutSuffix(s, "*")
	switch {
	case s == "" && !p.prefix:
		return p, errors.New(`is empty; write a client id, or the beginning of some with a * behind it, as in "%u-*"`)
	case strings.Contains(s, "*"):
		return p, errors.New("a * may stand at the end only")
	}
	if p.text, p.needs, err = parseTemplate(s); err == nil && p.needs&needsClient != 0 {
		err = errors.New("%c stands for the client id itself; write %u, the user")
	}
	return p, err
}

// matches reports whether a user may use a client id.
func (p idPattern) matches(user, id string) bool {
	if p.needs != 0 && user == "" {
		return false
	}
	rest, ok := p.text.cut(id, user, "")
	return ok && (p.prefix || rest == "")
}

// filter is a topic filter in which placeholders may stand, [MQTT 5], 4.7.
//
// [MQTT 5]: https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html
type filter struct {
	group  template // that of a shared subscription; nil if the filter is for all
	named  []named  // the levels that are no wildcards, in the order in which they are compared
	levels int      // how many there are, without the # at the end
	below  bool     // there is a # at the end
	wild   bool     // it begins with a wildcard
	dollar bool     // it begins with $
	needs  placeholders
}

// named is a level that is no wildcard.
type named struct {
	index   int
	kind    kind
	literal string
	text    template
}

// kind is what a level is compared with.
type kind uint8

const (
	aLiteral kind = iota
	theUser
	theClient
	aTemplate
)

// parseTopics reads the filter of topics that are published.
func parseTopics(s string) (filter, error) {
	f, err := parseFilter(s)
	if err == nil && f.group != nil {
		err = errors.New("nobody publishes to a shared subscription; write its topic filter")
	}
	return f, err
}

// parseFilter reads the filter of a subscription.
func parseFilter(s string) (f filter, err error) {
	group, topics, err := splitShared(s)
	if err != nil {
		return f, err
	}
	if err := checkFilter(topics); err != nil {
		return f, err
	}
	if f.group, f.needs, err = parseTemplate(group); err != nil {
		return f, err
	}
	var p path
	p.read(topics)
	f.levels, f.below, f.wild, f.dollar = p.n, p.hash >= 0, p.wild, p.dollar
	if f.below {
		f.levels = p.hash
	}
	if f.levels > maxLevels {
		return f, fmt.Errorf("has more than %d levels", maxLevels)
	}
	for i, s := range p.levels[:f.levels] {
		if s == "+" {
			continue
		}
		text, needs, err := parseTemplate(s)
		if err != nil {
			return f, err
		}
		f.named = append(f.named, newNamed(i, text))
		f.needs |= needs
	}
	slices.SortFunc(f.named, func(a, b named) int { // what is cheap first, and what is deep: it differs more often
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(b.index, a.index))
	})
	return f, nil
}

// newNamed returns a level with a text.
func newNamed(index int, t template) named {
	l := named{index: index, kind: aTemplate, text: t}
	switch {
	case len(t) == 0:
		l.kind = aLiteral
	case len(t) > 1:
	case t[0].name == needsUser:
		l.kind = theUser
	case t[0].name == needsClient:
		l.kind = theClient
	default:
		l.kind, l.literal = aLiteral, t[0].literal
	}
	return l
}

// splitShared returns the group and the filter of $share/GROUP/FILTER, or no group and the filter.
func splitShared(s string) (group, topics string, err error) {
	rest, shared := strings.CutPrefix(s, "$share/")
	if !shared {
		return "", s, nil
	}
	group, topics, _ = strings.Cut(rest, "/")
	if group == "" || topics == "" || strings.ContainsAny(group, "+#") {
		return "", "", errors.New("want $share/GROUP/FILTER, the group without wildcards")
	}
	return group, topics, nil
}

// checkFilter returns what is wrong with a topic filter.
func checkFilter(s string) error {
	if s == "" {
		return errors.New("is empty; write a topic filter, as in site/%c/#")
	}
	if len(s) > maxTopic {
		return fmt.Errorf("has %d bytes, want at most %d", len(s), maxTopic)
	}
	if strings.Contains(s, "\x00") {
		return errors.New("contains a NUL character")
	}
	for more := true; more; {
		var l string
		switch l, s, more = strings.Cut(s, "/"); {
		case l == "#" && more:
			return errors.New("a # may stand at the end only")
		case len(l) > 1 && strings.Contains(l, "#"):
			return errors.New("a # stands for whole levels, as in site/#")
		case len(l) > 1 && strings.Contains(l, "+"):
			return errors.New("a + stands for a whole level, as in site/+/state")
		}
	}
	return nil
}

// forGroup reports whether the filter applies to a shared subscription of a group, or, if that is
// "", to one that is not shared.
func (f *filter) forGroup(group string, n *names) bool {
	return f.group == nil || f.group.is(group, n)
}

// contains reports whether the filter matches all topics that p stands for. The names can fill it.
func (f *filter) contains(p *path, n *names) bool {
	switch {
	case f.wild && p.dollar: // 4.7.2
		return false
	case p.hash >= 0 && !(f.below && f.levels <= p.hash):
		return false
	case p.n < f.levels || p.n > f.levels && !f.below:
		return false
	}
	for i := range f.named {
		l := &f.named[i]
		if s := p.levels[l.index]; l.kind == aLiteral && s != l.literal || l.kind != aLiteral && !l.is(s, n) {
			return false
		}
	}
	return true
}

// overlaps reports whether the filter matches one of the topics that p stands for. The names can
// fill it.
func (f *filter) overlaps(p *path, n *names) bool {
	common := p.n
	if p.hash >= 0 {
		common = p.hash
	}
	switch {
	case f.wild && p.dollar || p.wild && f.dollar: // 4.7.2
		return false
	case f.levels < common && !f.below || f.levels > common && p.hash < 0:
		return false
	}
	for i := range f.named {
		l := &f.named[i]
		if l.index < common && p.levels[l.index] != "+" && !l.is(p.levels[l.index], n) {
			return false
		}
	}
	return true
}

func (l *named) is(s string, n *names) bool {
	switch l.kind {
	case theUser:
		return s == n.user
	case theClient:
		return s == n.client
	case aTemplate:
		return l.text.is(s, n)
	default:
		return s == l.literal
	}
}

// path is a topic, or a filter of topics without placeholders, by its levels.
type path struct {
	levels [maxLevels + 1]string // the first ones
	n      int                   // how many these are
	hash   int                   // the index of # among them, or -1
	wild   bool                  // it begins with a wildcard
	dollar bool                  // it begins with $
}

// read makes an empty path that of s.
func (p *path) read(s string) {
	if s == "+/#" { // matches what # does
		s = "#"
	}
	p.hash, p.dollar = -1, strings.HasPrefix(s, "$")
	for more := true; more && p.n < len(p.levels); p.n++ {
		p.levels[p.n], s, more = strings.Cut(s, "/")
	}
	if p.levels[p.n-1] == "#" {
		p.hash = p.n - 1
	}
	p.wild = p.hash == 0 || p.levels[0] == "+"
}
