package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decoder turns the parsed file into a Config and collects what is wrong.
// It walks the nodes itself, where the library's own decoder would stop at the
// first mistake, lose the line of a bad duration and read the device id 0123
// as a number.
type decoder struct {
	src     source
	anchors map[string]ast.Node
	found   []found
	dropped int // mistakes beyond maxErrors
}

// found is a mistake and where in the file it is.
type found struct {
	line, column int
	err          error
}

// maxErrors is how many mistakes of a file are shown.
const maxErrors = 20

// A setter stores one value of the file. The path names it in messages.
type setter func(path string, n ast.Node)

// field is a key of a mapping and what becomes of its value.
type field struct {
	key string
	set setter
}

// fail reports a mistake at a node.
func (d *decoder) fail(path string, n ast.Node, format string, args ...any) {
	if len(d.found) >= maxErrors {
		d.dropped++
		return
	}
	at := start(n)
	d.found = append(d.found, found{at.Line, at.Column, d.mistake(path, n, fmt.Sprintf(format, args...))})
}

func (d *decoder) mistake(path string, n ast.Node, message string) error {
	if path != "" {
		message = path + ": " + message
	}
	at := start(n)
	return d.src.mistake(at.Line, at.Column, message)
}

// mistakes returns how many there are.
func (d *decoder) mistakes() int { return len(d.found) + d.dropped }

// errs returns the mistakes in the order of the file.
func (d *decoder) errs() []error {
	slices.SortStableFunc(d.found, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	var errs []error
	for _, f := range d.found {
		errs = append(errs, f.err)
	}
	if d.dropped > 0 {
		errs = append(errs, fmt.Errorf("%s: and %d more mistakes", d.src.name, d.dropped))
	}
	return errs
}

// collect notes the anchors below a node.
func (d *decoder) collect(n ast.Node) { ast.Walk(collector{d}, n) }

type collector struct{ d *decoder }

// Visit implements ast.Visitor.
func (c collector) Visit(n ast.Node) ast.Visitor {
	if anchor, ok := n.(*ast.AnchorNode); ok && anchor.Name != nil {
		name := anchor.Name.GetToken().Value
		if c.d.anchors[name] != nil {
			c.d.fail("", n, "the anchor &%s is defined a second time", shorten(name))
		}
		c.d.anchors[name] = anchor.Value
	}
	return c
}

// resolve follows anchors and aliases to the node they stand for. It returns
// nil after reporting that there is none.
func (d *decoder) resolve(path string, n ast.Node) ast.Node {
	for range maxDepth {
		switch v := n.(type) {
		case nil:
			return nil
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			if d.anchors[name] == nil {
				d.fail(path, n, "there is no anchor &%s; a text that begins with * goes in quotes", shorten(name))
			}
			n = d.anchors[name]
		case *ast.TagNode:
			d.fail(path, n, "tags (!) are not supported; write the plain value")
			return nil
		default:
			return n
		}
	}
	d.fail(path, n, "anchors refer to each other")
	return nil
}

// mapping stores each value of a mapping, and returns them by key.
// An absent mapping (null) is an empty one.
func (d *decoder) mapping(path string, n ast.Node, fields []field) map[string]ast.Node {
	seen := map[string]ast.Node{}
	for _, pair := range d.pairs(path, n) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == pair.key })
		if i < 0 {
			d.unknown(path, pair, fields)
			continue
		}
		seen[pair.key] = pair.value
		fields[i].set(join(path, pair.key), pair.value)
	}
	return seen
}

func (d *decoder) unknown(path string, p pair, fields []field) {
	allowed := make([]string, len(fields))
	for i, f := range fields {
		allowed[i] = f.key
	}
	near := suggest(p.key, allowed)
	if near != "" {
		near = fmt.Sprintf("; did you mean %q?", near)
	}
	slices.Sort(allowed)
	shown := p.key
	if end := secretEnd(shown); end >= 0 { // token=SECRET
		shown = shown[:end]
	}
	d.fail(path, p.at, "unknown key %s%s (allowed here: %s)", quote(shown), near, strings.Join(allowed, ", "))
}

// pair is one entry of a mapping.
type pair struct {
	key       string
	at, value ast.Node // the key's node and the value's
}

// pairs returns the entries of a mapping in their order, without the ones that
// are wrong in themselves. Keys are taken as they are written: 0123 stays so.
func (d *decoder) pairs(path string, n ast.Node) []pair {
	var values []*ast.MappingValueNode
	switch v := d.resolve(path, n).(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.MappingNode:
		values = v.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{v}
	default:
		d.fail(path, n, "must be a mapping (key: value)")
		return nil
	}
	pairs := make([]pair, 0, len(values))
	lines := make(map[string]int, len(values))
	for _, v := range values {
		key, ok := d.key(path, v.Key)
		if !ok {
			continue
		}
		if line, repeated := lines[key]; repeated {
			d.fail(path, v.Key, "the key %s is repeated; it is already in line %d", quote(key), line)
			continue
		}
		lines[key] = start(v.Key).Line
		pairs = append(pairs, pair{key, v.Key, v.Value})
	}
	return pairs
}

func (d *decoder) key(path string, n ast.Node) (string, bool) {
	at := n
	if k, ok := n.(*ast.MappingKeyNode); ok {
		n = k.Value
	}
	if _, ok := n.(*ast.MergeKeyNode); ok {
		d.fail(path, at, "merge keys (<<) are not supported; repeat the keys, or refer to the whole mapping with *name")
		return "", false
	}
	text, ok := scalar(n)
	if !ok {
		d.fail(path, at, "a key must be a plain text")
	}
	return text, ok
}

// items returns the entries of a list.
func (d *decoder) items(path string, n ast.Node) []ast.Node {
	switch v := d.resolve(path, n).(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.SequenceNode:
		return v.Values
	}
	d.fail(path, n, "must be a list ([a, b], or one entry a line after -)")
	return nil
}

// someItems returns the entries of a list that must not be empty; todo says
// what else to do than remove it.
func (d *decoder) someItems(path string, n ast.Node, todo string) []ast.Node {
	before := d.mistakes()
	items := d.items(path, n)
	if len(items) == 0 && d.mistakes() == before {
		d.fail(path, n, "the list is empty; %s, or remove it", todo)
	}
	return items
}

// text returns the value of a scalar as it is written, without its quotes.
func (d *decoder) text(path string, n ast.Node) (string, bool) {
	n = d.resolve(path, n)
	if n == nil {
		return "", false
	}
	if n.Type() == ast.NullType {
		d.fail(path, n, "has no value; write one, or remove it")
		return "", false
	}
	text, ok := scalar(n)
	if !ok {
		d.fail(path, n, "must be a single value; put a text with brackets or braces in quotes")
	}
	return text, ok
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

// quoted reports whether a text is in quotes, and so cannot be a number.
func quoted(n ast.Node) bool {
	v, ok := n.(*ast.StringNode)
	return ok && v.Token != nil &&
		(v.Token.Type == token.SingleQuoteType || v.Token.Type == token.DoubleQuoteType)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
