package dag

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// A Drawing is a graph as it is drawn, maybe with what came of a run: see [Graph.Drawing] and [Report.Drawing]. It belongs to the
// caller, and may be changed before it is drawn, or made from anything else. Control characters of all texts are replaced by U+FFFD.
type Drawing struct {
	// Title stands above the picture. Mermaid leaves it out. Default: none.
	Title string
	// Nodes are drawn in this order where nothing else counts. Names are unique.
	Nodes []DrawingNode
}

// A DrawingNode is a node of a Drawing. Only Name is required.
type DrawingNode struct {
	// Name is the name of the node.
	Name string
	// After names the nodes before it. A name that the drawing does not have is left out.
	After []string
	// When is a node with a condition, which has another shape.
	When bool
	// State is the word for how the node is. The outcomes, "running" and "pending" have colors. Default: none.
	State string
	// Start and End are the times of the node. A drawing shows how long it took where both are set.
	Start, End time.Time
	// Note is a tooltip, such as an error or a result. Mermaid leaves it out.
	Note string
	// Attributes are those of Graphviz, such as color or URL (https://graphviz.org/docs/nodes/), for DOT. They override what DOT sets.
	Attributes map[string]string
}

// Drawing returns the graph as it is now.
func (g *Graph[T]) Drawing() Drawing {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := Drawing{Nodes: make([]DrawingNode, len(g.nodes))}
	for i, n := range g.nodes {
		d.Nodes[i] = DrawingNode{Name: n.Name, After: slices.Clone(n.After), When: n.When != nil}
	}
	return d
}

// Drawing returns the nodes of the run with their outcomes, times and errors.
func (r Report) Drawing() Drawing {
	d := Drawing{Nodes: make([]DrawingNode, len(r.Nodes))}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		d.Nodes[i] = DrawingNode{
			Name: n.Name, After: slices.Clone(n.After), When: n.When, State: n.Outcome.String(), Start: n.Start, End: n.End,
		}
		if n.Outcome == Failed {
			d.Nodes[i].Note = reason(n.Err)
		}
	}
	return d
}

// reason returns the error of a node without the node's name, which stands beside it.
func reason(err error) string {
	if failed, ok := err.(*NodeError); ok { //nolint:errorlint // its own error, not one inside
		return failed.Err.Error()
	}
	return err.Error()
}

// edges calls yield for each dependency, in the order of the nodes that have them.
func (d Drawing) edges(yield func(from, to int)) {
	number := make(map[string]int, len(d.Nodes))
	for i := range d.Nodes {
		number[d.Nodes[i].Name] = i
	}
	for i := range d.Nodes {
		for _, name := range d.Nodes[i].After {
			if from, ok := number[name]; ok {
				yield(from, i)
			}
		}
	}
}

// label returns the name and, in a second line, the state and how long the node took.
func (n *DrawingNode) label() string {
	text := n.State
	if !n.Start.IsZero() && !n.End.IsZero() {
		text = strings.TrimSpace(text + " " + span(n.End.Sub(n.Start)))
	}
	if text == "" {
		return n.Name
	}
	return n.Name + "\n" + text
}

// A look is the colors of a state. The text has a contrast of 7 or more to the fill.
type look struct{ line, fill, text string }

// looks returns the looks of the states that have one.
func looks() map[string]look {
	gray := look{line: "#7b8794", fill: "#f1f3f5", text: "#3e4c59"}
	return map[string]look{
		"done":     {line: "#2e7d32", fill: "#e6f4ea", text: "#14431a"},
		"failed":   {line: "#c62828", fill: "#fdeaea", text: "#6b1111"},
		"waiting":  {line: "#b26a00", fill: "#fff3dc", text: "#573300"},
		"running":  {line: "#1565c0", fill: "#e4f0fc", text: "#0b3a70"},
		"pending":  {line: "#7b8794", fill: "#ffffff", text: "#3e4c59"},
		"skipped":  gray,
		"canceled": gray,
	}
}

// span returns a duration with as many digits as a reader needs.
func span(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// DOT returns the drawing in the language of Graphviz (https://graphviz.org/doc/info/lang.html): a box for each node, a diamond for one
// with a condition, and an arrow from each node to those after it. The text is the same for the same drawing.
func (d Drawing) DOT() string {
	var b strings.Builder
	b.WriteString("digraph {\n\tnode [shape=box];\n")
	if d.Title != "" {
		fmt.Fprintf(&b, "\tlabel=\"%s\";\n\tlabelloc=t;\n", escapeDOT(d.Title))
	}
	for i := range d.Nodes {
		d.Nodes[i].writeDOT(&b, i)
	}
	d.edges(func(from, to int) { fmt.Fprintf(&b, "\tn%d -> n%d;\n", from, to) })
	b.WriteString("}\n")
	return b.String()
}

// writeDOT writes the line of node i.
func (n *DrawingNode) writeDOT(b *strings.Builder, i int) {
	fmt.Fprintf(b, "\tn%d [label=\"%s\"", i, escapeDOT(n.label()))
	if n.When {
		b.WriteString(" shape=diamond")
	}
	if look, ok := looks()[n.State]; ok {
		fmt.Fprintf(b, " style=filled color=\"%s\" fillcolor=\"%s\"", look.line, look.fill)
	}
	if n.Note != "" {
		fmt.Fprintf(b, " tooltip=\"%s\"", escapeDOT(n.Note))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Attributes)) {
		fmt.Fprintf(b, " \"%s\"=\"%s\"", escapeDOT(name), escapeDOT(n.Attributes[name]))
	}
	b.WriteString("];\n")
}

// Mermaid returns the drawing as a flowchart of Mermaid (https://mermaid.js.org/syntax/flowchart.html): a box for each node, a rhombus for
// one with a condition, and an arrow from each node to those after it. The text is the same for the same drawing.
func (d Drawing) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i := range d.Nodes {
		d.Nodes[i].writeMermaid(&b, i)
	}
	d.edges(func(from, to int) { fmt.Fprintf(&b, "    n%d --> n%d\n", from, to) })
	return b.String()
}

// writeMermaid writes the lines of node i.
func (n *DrawingNode) writeMermaid(b *strings.Builder, i int) {
	left, right := "[", "]"
	if n.When {
		left, right = "{", "}"
	}
	fmt.Fprintf(b, "    n%d%s\"%s\"%s\n", i, left, escapeMermaid(n.label()), right)
	if look, ok := looks()[n.State]; ok {
		fmt.Fprintf(b, "    style n%d stroke:%s,fill:%s,color:%s\n", i, look.line, look.fill, look.text)
	}
}

// drawable replaces what no drawing can show, and what would change the direction of the text after it. A carriage return, alone or
// before a newline, becomes a newline.
func drawable(name string) string {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r' || r == '\u2028' || r == '\u2029':
			return '\n'
		case r == '\t':
			return ' '
		case r != '\n' && unicode.In(r, unicode.Cc, unicode.Bidi_Control), r == '\uFFFE', r == '\uFFFF': // the last two are no characters
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
