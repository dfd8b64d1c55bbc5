package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// reader walks the nodes of a file and collects what is wrong. The library's own decoder would stop at the first mistake, and would not say
// where a value stands that turns out wrong only later.
type reader struct {
	src     source
	places  map[string]spot // where the value of a path is
	found   []mistake
	dropped int // mistakes beyond maxMistakes
}

// spot is a place in the file; both numbers count from 1.
type spot struct{ line, column int }

type mistake struct {
	spot

	err error
}

const maxMistakes = 20

// A setter stores one value. The path names it in messages.
type setter func(path string, n ast.Node)

// field is a key of a mapping and what becomes of its value.
type field struct {
	key string
	set setter
}

// value stores a scalar that parse understands.
func value[T any](r *reader, dst *T, parse func(string) (T, error)) setter {
	return func(path string, n ast.Node) {
		text, ok := r.text(path, n)
		if !ok {
			return
		}
		v, err := parse(text)
		if err != nil {
			r.fail(path, r.spot(n), "%v", err)
			return
		}
		*dst = v
	}
}

// plain is value for numbers and booleans, which must not be in quotes.
func plain[T any](r *reader, dst *T, parse func(string) (T, error)) setter {
	set := value(r, dst, parse)
	return func(path string, n ast.Node) {
		if v, ok := n.(*ast.StringNode); ok && v.Token != nil &&
			(v.Token.Type == token.SingleQuoteType || v.Token.Type == token.DoubleQuoteType) {
			r.fail(path, r.spot(n), "is a text; write the value without quotes")
			return
		}
		set(path, n)
	}
}

func (r *reader) fail(path string, at spot, format string, args ...any) {
	if len(r.found) >= maxMistakes {
		r.dropped++
		return
	}
	message := fmt.Sprintf(format, args...)
	if path != "" {
		message = path + ": " + message
	}
	r.found = append(r.found, mistake{at, r.src.mistake(at, message)})
}

// mistakes returns how many there are so far.
func (r *reader) mistakes() int { return len(r.found) + r.dropped }

// err returns the mistakes in the order of the file.
func (r *reader) err() error {
	slices.SortStableFunc(r.found, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	var errs []error
	for _, m := range r.found {
		errs = append(errs, m.err)
	}
	if r.dropped > 0 {
		errs = append(errs, fmt.Errorf("%s: and %d more mistakes", r.src.name, r.dropped))
	}
	return errors.Join(errs...)
}

func (r *reader) spot(n ast.Node) spot {
	at := start(n)
	return spot{at.Line, at.Column}
}

func (r *reader) note(path string, n ast.Node) { r.places[path] = r.spot(n) }

func (r *reader) said(path string) bool {
	_, ok := r.places[path]
	return ok
}

// place returns where a path stands, or what it is in.
func (r *reader) place(path string) spot {
	for path != "" {
		if at, ok := r.places[path]; ok {
			return at
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return spot{1, 1}
}

// mapping stores each value of a mapping, and returns which keys there are.
func (r *reader) mapping(path string, n ast.Node, fields []field) map[string]bool {
	seen := map[string]bool{}
	var values []*ast.MappingValueNode
	switch v := n.(type) {
	case *ast.MappingNode:
		values = v.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{v}
	default:
		r.wrongType(path, n, "must be a mapping (key: value)")
	}
	lines := map[string]int{}
	for _, v := range values {
		key, ok := r.key(path, v.Key)
		if !ok {
			continue
		}
		at := r.spot(v.Key)
		if line, repeated := lines[key]; repeated {
			r.fail(path, at, "the key %s is repeated; it is already in line %d", shown(key), line)
			continue
		}
		lines[key] = at.line
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			r.unknown(path, at, key, fields)
			continue
		}
		seen[key] = true
		below := join(path, key)
		r.note(below, v.Value)
		fields[i].set(below, v.Value)
	}
	return seen
}

func (r *reader) unknown(path string, at spot, key string, fields []field) {
	allowed := make([]string, len(fields))
	for i, f := range fields {
		allowed[i] = f.key
	}
	near := suggest(key, allowed)
	if near != "" {
		near = fmt.Sprintf("; did you mean %q?", near)
	}
	r.fail(path, at, "unknown key %s%s (allowed here: %s)", shown(key), near, strings.Join(allowed, ", "))
}

func (r *reader) key(path string, n ast.Node) (string, bool) {
	at := n
	if k, ok := n.(*ast.MappingKeyNode); ok {
		n = k.Value
	}
	if text, ok := scalar(n); ok {
		return text, true
	}
	r.wrongType(path, at, "a key must be a plain text")
	return "", false
}

// items returns the entries of a list.
func (r *reader) items(path string, n ast.Node) []ast.Node {
	v, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongType(path, n, "must be a list ([a, b], or one entry a line after -)")
		return nil
	}
	if len(v.Values) == 0 {
		r.fail(path, r.spot(n), "the list is empty; write an entry, or remove it")
	}
	return v.Values
}

// text returns a scalar as it is written, without its quotes.
func (r *reader) text(path string, n ast.Node) (string, bool) {
	text, ok := scalar(n)
	if _, null := n.(*ast.NullNode); null || !ok {
		r.wrongType(path, n, "must be a single value; put a text with brackets or braces in quotes")
		return "", false
	}
	return text, true
}

// wrongType reports a node that is not what it should be.
func (r *reader) wrongType(path string, n ast.Node, message string) {
	switch n.(type) {
	case *ast.NullNode:
		message = "has no value; write one, or remove it"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		message = "anchors (&), aliases (*) and merge keys (<<) are not supported; repeat the value, and put a text that begins so in quotes"
	case *ast.TagNode:
		message = "tags (!) are not supported; write the plain value"
	}
	r.fail(path, r.spot(n), "%s", message)
}

// scalar returns the text of a scalar node. Numbers stay as they are written.
func scalar(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		if v.Value == nil {
			return "", true
		}
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode, *ast.NullNode:
		if t := n.GetToken(); t != nil {
			return t.Value, true
		}
	}
	return "", false
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
