package wording

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template/parse"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
)

const (
	// MaxTemplate is the maximum length of a template in bytes.
	MaxTemplate = 8 << 10
	// MaxOutput is the maximum length of what a template writes, and maxWork that of what its functions
	// return in one execution.
	MaxOutput = 64 << 10
	maxWork   = 1 << 20
)

// ErrTooLong is returned by [Template.Execute] with the beginning of what the template would write.
var ErrTooLong = errors.New("the template writes more than 64 KiB")

// errWork is returned by functions of templates whose results are too long together.
var errWork = errors.New("the functions of the template return more than 1 MiB")

// Template is a text/template that is executed with a [Notification]. It calls no methods. It always
// ends: it has no loops but over .List, and no templates within it. All its methods may be called concurrently.
type Template struct {
	template *template.Template
	list     bool // it says what to write for several notifications
}

// Parse returns a template by the name that its errors give it. Beside the functions of text/template it
// has json, which writes a value as JSON, and seconds, which makes a number of a [Duration]. Mistakes are found at once, with their position: the template
// is executed with each of [Samples].
func Parse(name, text string) (*Template, error) {
	if len(text) > MaxTemplate {
		return nil, fmt.Errorf("%s has %d bytes, want %d at most", name, len(text), MaxTemplate)
	}
	parsed, err := template.New(name).Funcs(functions(&budget{})).Parse(text)
	if err != nil {
		return nil, err
	}
	if parsed.Tree == nil || parsed.Root == nil || len(parsed.Templates()) > 1 {
		return nil, fmt.Errorf("%s: define, block and template are not allowed", name)
	}
	if err := check(parsed.Tree, parsed.Root, false); err != nil {
		return nil, err
	}
	t := &Template{template: parsed, list: strings.Contains(text, ".List") || strings.Contains(text, ".Count")}
	for _, n := range Samples() {
		if n.Count > 1 && !t.list {
			continue
		}
		if _, err := t.Execute(n); err != nil && !errors.Is(err, ErrTooLong) {
			return nil, err
		}
	}
	return t, nil
}

// check rejects what could make an execution long.
func check(tree *parse.Tree, node parse.Node, inRange bool) error {
	refuse := func(why string) error {
		where, _ := tree.ErrorContext(node)
		return fmt.Errorf("template: %s: %s", where, why)
	}
	both := func(b *parse.BranchNode, inRange bool) error {
		err := check(tree, b.List, inRange)
		if b.ElseList != nil {
			err = errors.Join(err, check(tree, b.ElseList, inRange))
		}
		return err
	}
	switch n := node.(type) {
	case *parse.ListNode:
		for _, one := range n.Nodes {
			if err := check(tree, one, inRange); err != nil {
				return err
			}
		}
		return nil
	case *parse.IfNode:
		return both(&n.BranchNode, inRange)
	case *parse.WithNode:
		return both(&n.BranchNode, inRange)
	case *parse.RangeNode:
		over := ""
		if len(n.Pipe.Cmds) == 1 {
			over = strings.TrimPrefix(n.Pipe.Cmds[0].String(), "$")
		}
		if inRange || over != ".List" {
			return refuse("range goes over .List only, and not within another range")
		}
		return both(&n.BranchNode, true)
	case *parse.TextNode, *parse.ActionNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		return nil
	}
	return refuse("define, block and template are not allowed")
}

// Execute returns what the template writes for a notification.
func (t *Template) Execute(n *Notification) (string, error) {
	c, err := t.template.Clone()
	if err != nil {
		return "", err
	}
	var out bounded
	err = c.Funcs(functions(&budget{left: maxWork})).Execute(&out, n)
	return out.String(), err
}

// bounded is a buffer that takes MaxOutput bytes.
type bounded struct{ strings.Builder }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := MaxOutput - b.Len(); len(p) > room {
		b.Builder.Write(p[:room])
		return room, ErrTooLong
	}
	return b.Builder.Write(p)
}

// budget is how many bytes the functions of an execution may still return.
type budget struct{ left int }

func (b *budget) text(text string) (string, error) {
	if b.left -= len(text); b.left < 0 {
		return "", errWork
	}
	return text, nil
}

// functions returns those functions that make texts, with a budget. The others of text/template return
// no more than they are given.
func functions(b *budget) template.FuncMap {
	escape := func(with func(...any) string) func(...any) (string, error) {
		return func(args ...any) (string, error) { return b.text(with(args...)) }
	}
	wide := regexp.MustCompile(`[0-9]{3}|\*`)
	return template.FuncMap{
		"html": escape(template.HTMLEscaper), "js": escape(template.JSEscaper), "urlquery": escape(template.URLQueryEscaper),
		"print": escape(fmt.Sprint), "println": escape(fmt.Sprintln),
		"printf": func(format string, args ...any) (string, error) {
			if wide.MatchString(format) {
				return "", errors.New("a width in the format has more than two digits, or is *")
			}
			return b.text(fmt.Sprintf(format, args...))
		},
		"seconds": Duration.Seconds,
		"json": func(value any) (string, error) {
			text, err := json.Marshal(value)
			if err != nil {
				return "", err
			}
			return b.text(string(text))
		},
	}
}
