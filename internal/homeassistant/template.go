package homeassistant

import (
	"errors"
	"fmt"
	"strings"
)

// template is a value template, in the part of Jinja that availability uses: texts, {{ expressions }} and {% if %}. An expression has no
// loops and no functions of Home Assistant, so it ends soon and depends on the payload alone. See expression.
type template []node

// node is a part of a template.
type node struct {
	text string     // as it is
	show expression // nil, or what is shown
	arms []arm      // of an if: the first whose condition is true counts
}

type arm struct {
	when expression // nil for else
	then template
}

// parseTemplate parses a template; the empty one is "{{ value }}". Errors: what of it is not understood.
func parseTemplate(text string) (template, error) {
	if strings.TrimSpace(text) == "" {
		text = "{{ value }}"
	}
	p := templateParser{rest: text}
	t, stop, err := p.nodes(0)
	if err == nil && stop != "" {
		err = fmt.Errorf("{%% %.20s %%} is not understood there", stop)
	}
	return t, err
}

type templateParser struct{ rest string }

// maxNested is how deep an if or an expression may be nested.
const maxNested = 16

// nodes parses up to a statement that is no if, which it returns with its expression before the parser.
func (p *templateParser) nodes(depth int) (t template, stop string, err error) {
	if depth > maxNested {
		return nil, "", errors.New("it is nested too deep")
	}
	for p.rest != "" {
		at := strings.Index(p.rest, "{")
		for at >= 0 && !strings.ContainsRune("{%#", rune((p.rest + " ")[at+1])) {
			next := strings.Index(p.rest[at+1:], "{")
			if next < 0 {
				at = -1
				break
			}
			at += 1 + next
		}
		if at < 0 {
			return append(t, node{text: p.rest}), "", nil
		}
		if at > 0 {
			t = append(t, node{text: p.rest[:at]})
		}
		kind := p.rest[at+1]
		inner, err := p.tag(at)
		switch {
		case err != nil:
			return nil, "", err
		case kind == '#': // a comment
		case kind == '{':
			e, err := parseExpression(inner)
			if err != nil {
				return nil, "", err
			}
			t = append(t, node{show: e})
		case inner == "":
			return nil, "", errors.New("{% %} is empty")
		case word(inner) == "if":
			n, err := p.branches(inner, depth)
			if err != nil {
				return nil, "", err
			}
			t = append(t, n)
		default:
			return t, inner, nil
		}
	}
	return t, "", nil
}

// tag takes the tag that begins at a place, and returns what is in it.
func (p *templateParser) tag(at int) (inner string, err error) {
	end := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[p.rest[at+1]]
	inner, rest, ok := strings.Cut(p.rest[at+2:], end)
	if !ok {
		return "", fmt.Errorf("%s is missing", end)
	}
	p.rest = rest
	return strings.TrimSpace(strings.Trim(inner, "-")), nil
}

// branches parses an if whose first tag was taken.
func (p *templateParser) branches(tag string, depth int) (n node, err error) {
	for {
		var a arm
		switch condition := strings.TrimSpace(tag[len(word(tag)):]); word(tag) {
		case "if", "elif":
			if a.when, err = parseExpression(condition); err != nil {
				return n, err
			}
		case "else":
		case "endif":
			return n, nil
		case "":
			return n, errors.New("{% endif %} is missing")
		default:
			return n, fmt.Errorf("{%% %.20s %%} is not understood", tag)
		}
		if a.then, tag, err = p.nodes(depth + 1); err != nil {
			return n, err
		}
		n.arms = append(n.arms, a)
	}
}

func word(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz"))] }

// render returns what a template makes of a payload, without blanks at its ends. ok is false if it shows a value that the payload does not
// have.
func (t template) render(payload []byte) (text string, ok bool) {
	var b strings.Builder
	if !t.write(&b, newValues(payload)) {
		return "", false
	}
	return strings.TrimSpace(b.String()), true
}

func (t template) write(b *strings.Builder, v *values) bool {
	for _, n := range t {
		switch {
		case n.show != nil:
			x := n.show(v)
			if x == (undefined{}) {
				return false
			}
			b.WriteString(shown(x))
		case n.arms != nil:
			for _, a := range n.arms {
				if a.when == nil || isTrue(a.when(v)) {
					if !a.then.write(b, v) {
						return false
					}
					break
				}
			}
		default:
			b.WriteString(n.text)
		}
	}
	return true
}
