package convention

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxCaptures is the largest number of captures in a topic.
const maxCaptures = 8

// captures holds the texts of a topic's captures, in their order.
type captures [maxCaptures]string

// pattern is a parsed topic with captures. See [Rule.Topic].
type pattern struct {
	filter string   // the filter to subscribe to
	names  []string // names of the captures
	// prefix and suffix are the fixed texts at both ends. Comparing them first rejects most topics.
	prefix, suffix string
	levels         []level
	multi          int  // the index of the level that is {name...}, or -1
	wild           bool // the first level is not a fixed text
}

type levelKind uint8

const (
	fixedLevel   levelKind = iota
	anyLevel               // +
	captureLevel           // {name}
	mixedLevel             // text and captures
	multiLevel             // {name...}
	restLevel              // #
)

type level struct {
	kind    levelKind
	text    string   // of fixedLevel
	capture int      // the index of the first capture
	between []string // of mixedLevel: the text before, between and after its captures
}

// parsePattern parses a topic.
func parsePattern(topic string) (*pattern, error) {
	switch {
	case topic == "":
		return nil, errors.New("it is missing; write one as in tele/{device}/LWT")
	case len(topic) > 65535:
		return nil, fmt.Errorf("it has %d bytes, MQTT allows 65535", len(topic))
	case !utf8.ValidString(topic) || strings.ContainsRune(topic, 0):
		return nil, errors.New("it is not UTF-8 or has a NUL, which MQTT does not allow")
	}
	p := &pattern{multi: -1}
	share, rest, err := cutShare(topic)
	if err != nil {
		return nil, err
	}
	texts := strings.Split(rest, "/")
	for i, text := range texts {
		l, err := p.level(text, i == len(texts)-1)
		if err != nil {
			return nil, err
		}
		if i == 0 && l.kind == mixedLevel && strings.HasPrefix(l.between[0], "$") {
			return nil, fmt.Errorf("its first level %s begins with $ and has captures; MQTT matches such topics only if that level is written out", text)
		}
		if l.kind == multiLevel {
			p.multi = i
		}
		p.levels = append(p.levels, l)
	}
	if p.multi >= 0 && p.levels[len(p.levels)-1].kind == restLevel {
		return nil, errors.New("it has both {name...} and #, and where the one ends and the other begins is not known; use one of them")
	}
	p.finish(share)
	return p, nil
}

// cutShare cuts $share/group/ from a topic.
func cutShare(topic string) (share, rest string, err error) {
	after, ok := strings.CutPrefix(topic, "$share/")
	if !ok {
		return "", topic, nil
	}
	group, rest, ok := strings.Cut(after, "/")
	if !ok || group == "" || rest == "" || strings.ContainsAny(group, "+#{}") {
		return "", "", errors.New("a shared subscription is written $share/group/topic")
	}
	return topic[:len(topic)-len(rest)], rest, nil
}

// level parses one level of a topic.
func (p *pattern) level(text string, last bool) (level, error) {
	switch {
	case text == "+":
		return level{kind: anyLevel}, nil
	case text == "#" && last:
		return level{kind: restLevel}, nil
	case text == "#":
		return level{}, errors.New("# stands for all levels that follow, so it can only be the last; write {name...} for one or more levels before the last")
	case strings.ContainsAny(text, "+#"):
		return level{}, fmt.Errorf("in %q, + and # can only be a whole level; write {name} for a part of one", text)
	case !strings.ContainsAny(text, "{}"):
		return level{kind: fixedLevel, text: text}, nil
	}
	if name, ok := strings.CutSuffix(text, "...}"); ok && strings.LastIndexByte(text, '{') == 0 {
		if p.multi >= 0 || slices.ContainsFunc(p.levels, func(l level) bool { return l.kind == multiLevel }) {
			return level{}, errors.New("only one capture can stand for several levels")
		}
		l := level{kind: multiLevel, capture: len(p.names)}
		return l, p.name(name[1:])
	}
	return p.mixed(text)
}

// mixed parses a level with captures.
func (p *pattern) mixed(text string) (level, error) {
	l := level{kind: mixedLevel, capture: len(p.names)}
	err := eachPart(text, func(fixed, name string) error {
		if len(l.between) > 0 && fixed == "" && name != "" {
			return fmt.Errorf("in %q, nothing stands between two captures, and where the one ends and the other begins is not known", text)
		}
		l.between = append(l.between, fixed)
		if name == "" {
			return nil
		}
		if strings.HasSuffix(name, "...") {
			return fmt.Errorf("in %q, a capture of several levels has to stand alone in its level", text)
		}
		return p.name(name)
	})
	if err == nil && len(l.between) == 2 && l.between[0] == "" && l.between[1] == "" {
		l.kind = captureLevel
	}
	return l, err
}

// eachPart calls part for each capture in a text with the fixed text before it, and once more, without a name, for the text that remains.
func eachPart(text string, part func(fixed, name string) error) error {
	for rest := text; ; {
		open := strings.IndexAny(rest, "{}")
		if open < 0 {
			return part(rest, "")
		}
		end := strings.IndexAny(rest[open+1:], "{}")
		if rest[open] == '}' || end < 0 || rest[open+1+end] == '{' {
			return fmt.Errorf("in %q, a { or } has no counterpart", text)
		}
		name := rest[open+1 : open+1+end]
		if name == "" {
			return fmt.Errorf("in %q, {} has no name; write one as in {device}", text)
		}
		if err := part(rest[:open], name); err != nil {
			return err
		}
		rest = rest[open+1+end+1:]
	}
}

// name adds the name of a capture.
func (p *pattern) name(name string) error {
	for i, c := range []byte(name) {
		if (c < 'a' || c > 'z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return fmt.Errorf("{%s} is not a name for a capture; use lower case letters, digits and _", name)
		}
	}
	switch {
	case name == "":
		return errors.New("{...} has no name; write one as in {device...}")
	case slices.Contains(p.names, name):
		return fmt.Errorf("{%s} is in it twice; give the captures different names", name)
	case len(p.names) == maxCaptures:
		return fmt.Errorf("it has more than %d captures; use + where the text does not matter", maxCaptures)
	}
	p.names = append(p.names, name)
	return nil
}

// finish computes filter, prefix and suffix from the levels.
func (p *pattern) finish(share string) {
	filter := make([]string, 0, len(p.levels))
	for _, l := range p.levels {
		if l.kind == multiLevel || l.kind == restLevel {
			filter = append(filter, "#")
			break
		}
		filter = append(filter, l.filter())
	}
	p.filter = share + strings.Join(filter, "/")
	p.wild = p.levels[0].kind != fixedLevel
	for i, l := range p.levels {
		if l.kind != fixedLevel {
			if l.kind == mixedLevel {
				p.prefix += l.between[0]
			}
			break
		}
		p.prefix += l.text
		if i < len(p.levels)-1 && p.levels[i+1].kind != restLevel { // a/# matches a as well
			p.prefix += "/"
		}
	}
	for i, l := range slices.Backward(p.levels) {
		if l.kind != fixedLevel {
			if l.kind == mixedLevel {
				p.suffix = l.between[len(l.between)-1] + p.suffix
			}
			break
		}
		p.suffix = l.text + p.suffix
		if i > 0 {
			p.suffix = "/" + p.suffix
		}
	}
}

func (l level) filter() string {
	if l.kind == fixedLevel {
		return l.text
	}
	return "+"
}

// match reports whether a topic matches, and fills in the captures. O(len(topic)), without
// allocation.
func (p *pattern) match(topic string, found *captures) bool {
	if !strings.HasPrefix(topic, p.prefix) || !strings.HasSuffix(topic, p.suffix) || topic == "" || p.wild && topic[0] == '$' {
		return false
	}
	if p.multi < 0 {
		return matchLevels(p.levels, topic, 0, found)
	}
	from, ok := matchHead(p.levels[:p.multi], topic, found)
	if !ok {
		return false
	}
	tail := p.levels[p.multi+1:]
	end := len(topic)
	for range tail {
		slash := strings.LastIndexByte(topic[from:end], '/')
		if slash < 0 {
			return false
		}
		end = from + slash
	}
	if end == from {
		return false
	}
	found[p.levels[p.multi].capture] = topic[from:end]
	return matchLevels(tail, topic, end+1, found)
}

// matchHead matches the first levels of a topic and returns where the next one starts. There must
// be a next one.
func matchHead(levels []level, topic string, found *captures) (next int, ok bool) {
	for i := range levels {
		end := strings.IndexByte(topic[next:], '/')
		if end < 0 || !levels[i].match(topic[next:next+end], found) {
			return 0, false
		}
		next += end + 1
	}
	return next, true
}

// matchLevels matches all levels of a topic that start at from, which is len(topic)+1 if there are none.
func matchLevels(levels []level, topic string, from int, found *captures) bool {
	for i := range levels {
		l := &levels[i]
		if l.kind == restLevel {
			return true
		}
		if from > len(topic) {
			return false
		}
		end := strings.IndexByte(topic[from:], '/')
		if end < 0 {
			end = len(topic) - from
		}
		if !l.match(topic[from:from+end], found) {
			return false
		}
		from += end + 1
	}
	return from > len(topic)
}

func (l *level) match(text string, found *captures) bool {
	switch l.kind {
	case fixedLevel:
		return text == l.text
	case captureLevel:
		found[l.capture] = text
		return text != ""
	case mixedLevel:
		return l.matchMixed(text, found)
	default:
		return true
	}
}

// matchMixed matches from right to left: if each fixed text is as far right as possible, each
// capture from the left is as long as possible.
func (l *level) matchMixed(text string, found *captures) bool {
	last := len(l.between) - 1
	if !strings.HasPrefix(text, l.between[0]) || !strings.HasSuffix(text, l.between[last]) {
		return false
	}
	start, end := len(l.between[0]), len(text)-len(l.between[last])
	for i := last - 1; i > 0; i-- {
		if end-1 < start {
			return false
		}
		at := strings.LastIndex(text[start:end-1], l.between[i]) // the capture after it has at least one byte
		if at < 0 {
			return false
		}
		found[l.capture+i] = text[start+at+len(l.between[i]) : end]
		end = start + at
	}
	if end <= start {
		return false
	}
	found[l.capture] = text[start:end]
	return true
}
