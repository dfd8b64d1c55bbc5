package dag

import (
	"fmt"
	"strings"
	"unicode"
)

// DOT returns the graph in the language of Graphviz (https://graphviz.org/doc/info/lang.html): a box for each node, a diamond for one
// with a condition, and an arrow from each node to those after it. The text is the same for the same nodes in the same order. A
// dependency that is missing is left out. Control characters of a name are replaced by U+FFFD.
func (g *Graph[T]) DOT() string {
	var b strings.Builder
	b.WriteString("digraph {\n\tnode [shape=box];\n")
	g.draw(func(i int32, name string, condition bool) {
		shape := ""
		if condition {
			shape = " shape=diamond"
		}
		fmt.Fprintf(&b, "\tn%d [label=\"%s\"%s];\n", i, escapeDOT(name), shape)
	}, func(from, to int32) {
		fmt.Fprintf(&b, "\tn%d -> n%d;\n", from, to)
	})
	b.WriteString("}\n")
	return b.String()
}

// Mermaid returns the graph as a flowchart of Mermaid (https://mermaid.js.org/syntax/flowchart.html), with all that DOT says of it.
func (g *Graph[T]) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	g.draw(func(i int32, name string, condition bool) {
		left, right := "[", "]"
		if condition {
			left, right = "{", "}"
		}
		fmt.Fprintf(&b, "    n%d%s\"%s\"%s\n", i, left, escapeMermaid(name), right)
	}, func(from, to int32) {
		fmt.Fprintf(&b, "    n%d --> n%d\n", from, to)
	})
	return b.String()
}

// draw calls node for each node, and then edge for each dependency.
func (g *Graph[T]) draw(node func(i int32, name string, condition bool), edge func(from, to int32)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.nodes {
		node(int32(i), g.nodes[i].Name, g.nodes[i].When != nil)
	}
	for i := range g.nodes {
		for _, name := range g.nodes[i].After {
			if from, ok := g.index[name]; ok {
				edge(from, int32(i))
			}
		}
	}
}

// drawable replaces what no drawing can show, and what would change the direction of the text after it. A carriage return, alone or before a newline, becomes a newline.
func drawable(name string) string {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r' || r == '\u2028' || r == '\u2029':
			return '\n'
		case r == '\t':
			return ' '
		case r != '\n' && unicode.In(r, unicode.Cc, unicode.Bidi_Control):
			return '\uFFFD'
		}
		return r
	}, name)
}

// escapeDOT returns the name as the inside of a quoted label. There a backslash begins an escape sequence
// (https://graphviz.org/docs/attr-types/escString/), and an ampersand an HTML entity.
func escapeDOT(name string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "&", "&amp;").Replace(drawable(name))
}

// escapeMermaid returns the name as the inside of a quoted label. All but letters, digits and spaces becomes an entity code
// (https://mermaid.js.org/syntax/flowchart.html#entity-codes-to-escape-characters), so that nothing is taken for Markdown, a link
// or a directive.
func escapeMermaid(name string) string {
	var b strings.Builder
	for _, r := range drawable(name) {
		switch {
		case r == '\n':
			b.WriteString("<br/>")
		case r == ' ' || unicode.In(r, unicode.L, unicode.Nd):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
