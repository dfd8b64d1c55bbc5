package dag

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A look is how a state is drawn: the colors of line, fill and text, on light and on dark ground.
type look struct {
	line, fill, text             string
	darkLine, darkFill, darkText string
	dashed                       bool
}

// looks are the looks of the states. The text on each fill has a contrast of 7 or more.
func looks() map[string]look {
	gray := look{line: "#7b8794", fill: "#f1f3f5", text: "#3e4c59", darkLine: "#7b8794", darkFill: "#262b31", darkText: "#c3cad2"}
	skipped := gray
	skipped.dashed = true
	return map[string]look{
		"done":     {line: "#2e7d32", fill: "#e6f4ea", text: "#14431a", darkLine: "#5fbf68", darkFill: "#15301a", darkText: "#c4ecc8"},
		"failed":   {line: "#c62828", fill: "#fdeaea", text: "#6b1111", darkLine: "#ef6b6b", darkFill: "#3b1616", darkText: "#ffd0d0"},
		"waiting":  {line: "#b26a00", fill: "#fff3dc", text: "#573300", darkLine: "#e0a040", darkFill: "#382708", darkText: "#ffe1ab"},
		"running":  {line: "#1565c0", fill: "#e4f0fc", text: "#0b3a70", darkLine: "#64a8f0", darkFill: "#10273f", darkText: "#cbe3ff"},
		"pending":  {line: "#7b8794", fill: "#ffffff", text: "#3e4c59", darkLine: "#7b8794", darkFill: "#16191d", darkText: "#c3cad2"},
		"skipped":  skipped,
		"canceled": gray,
	}
}

// The measures of a drawing, in pixels.
const (
	margin    = 24.0
	columnGap = 28.0 // between boxes of a layer
	layerGap  = 52.0
	minWidth  = 120.0
	padding   = 16.0 // between the sides of a box and its text
	lineOne   = 19.0 // heights of the name, and of the lines below it
	lineMore  = 17.0
	maxRunes  = 40 // longer texts are shortened
	maxTitle  = 120
)

// SVG returns the drawing as a picture of its own: the nodes in layers from top to bottom, each below all those before it, with
// state, duration and note. It is readable on light and on dark ground, and fit for the eyes of those who see no colors. It takes
// some time with very many nodes, and is then too large to look at.
func (d Drawing) SVG() string {
	l := d.layout()
	top, width, height := margin, l.width+2*margin, l.height+2*margin
	if d.Title != "" {
		top += 36
		height += 36
		width = max(width, textWidth(shorten(d.Title, maxTitle), 18.5)+2*margin)
	}
	left := (width - l.width) / 2
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="dag" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n",
		width, height, width, height, escapeXML(d.describe()))
	b.WriteString(style())
	b.WriteString(`<defs><marker id="dag-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="dag-head" d="M0 0L8 4L0 8z"/></marker></defs>` + "\n")
	fmt.Fprintf(&b, `<rect class="dag-ground" width="%.0f" height="%.0f"/>`+"\n", width, height)
	if d.Title != "" {
		fmt.Fprintf(&b, `<text class="dag-title" x="%.1f" y="%.1f">%s<title>%s</title></text>`+"\n", margin, margin+14, escapeXML(shorten(d.Title, maxTitle)), escapeXML(d.Title))
	}
	fmt.Fprintf(&b, `<g transform="translate(%.1f %.1f)">`+"\n", left, top)
	for _, route := range l.routes {
		class := "dag-edge"
		if d.Nodes[route.to].State == Skipped.String() {
			class += " dag-off"
		}
		fmt.Fprintf(&b, `<path class="%s" d="%s"/>`+"\n", class, route.path())
	}
	for i := range d.Nodes {
		d.Nodes[i].writeSVG(&b, l.boxes[i])
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// describe returns what a screen reader says of the drawing.
func (d Drawing) describe() string {
	var texts []string
	if d.Title != "" {
		texts = append(texts, d.Title)
	}
	for i := range d.Nodes[:min(len(d.Nodes), 100)] {
		texts = append(texts, strings.TrimSpace(d.Nodes[i].Name+" "+d.Nodes[i].summary()))
	}
	return strings.Join(texts, "; ")
}

// lines returns the texts in the box of a node.
func (n *DrawingNode) lines() []string {
	lines := []string{shorten(n.Name, maxRunes)}
	if text := n.summary(); text != "" {
		lines = append(lines, text)
	}
	if n.Note != "" {
		lines = append(lines, shorten(n.Note, maxRunes))
	}
	return lines
}

// size returns the width and height of the box of a node.
func (n *DrawingNode) size() (width, height float64) {
	for i, text := range n.lines() {
		size := 12.0
		if i == 0 {
			size = 16 // it is bold, so wider than 14
		}
		width = max(width, textWidth(text, size))
		height += lineMore
	}
	side := padding
	if n.When {
		side += pointed
	}
	return max(minWidth, width+2*side), height + lineOne - lineMore + padding
}

// pointed is how far the sides of a box with a condition reach out.
const pointed = 12.0

func (n *DrawingNode) writeSVG(b *strings.Builder, at box) {
	class := "dag-node"
	if _, ok := looks()[n.State]; ok {
		class += " dag-" + n.State
	}
	fmt.Fprintf(b, `<g class="%s"><title>%s</title>`, class, escapeXML(strings.Join(slices.DeleteFunc([]string{n.Name, n.summary(), n.Note}, func(s string) bool { return s == "" }), "\n")))
	left, right, top, bottom := at.x-at.width/2, at.x+at.width/2, at.y-at.height/2, at.y+at.height/2
	if n.When {
		fmt.Fprintf(b, `<path d="M%.1f %.1fL%.1f %.1fH%.1fL%.1f %.1fL%.1f %.1fH%.1fz"/>`,
			left, at.y, left+pointed, top, right-pointed, right, at.y, right-pointed, bottom, left+pointed)
	} else {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="7"/>`, left, top, at.width, at.height)
	}
	y := top + padding/2 + 14
	for i, text := range n.lines() {
		class := "dag-more"
		if i == 0 {
			class = "dag-name"
		}
		fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, at.x, y, escapeXML(text))
		y += lineMore
	}
	b.WriteString("</g>\n")
}

// style returns the style sheet.
func style() string {
	var light, dark strings.Builder
	rule := func(class, extra string, l look) {
		fmt.Fprintf(&light, "%s rect,%s path{stroke:%s;fill:%s%s}%s text{fill:%s}\n", class, class, l.line, l.fill, extra, class, l.text)
		fmt.Fprintf(&dark, "%s rect,%s path{stroke:%s;fill:%s}%s text{fill:%s}\n", class, class, l.darkLine, l.darkFill, class, l.darkText)
	}
	looks := looks()
	rule(".dag-node", ";stroke-width:1.5", looks["pending"])
	for _, state := range slices.Sorted(maps.Keys(looks)) {
		extra := ""
		if looks[state].dashed {
			extra = ";stroke-dasharray:5 4"
		}
		rule(".dag-"+state, extra, looks[state])
	}
	return `<style>
.dag text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.dag .dag-title{font-size:16px;font-weight:600;fill:#1b2733}
.dag-name{font-size:14px;font-weight:600;text-anchor:middle}.dag-more{font-size:12px;text-anchor:middle}
.dag{background:#fff}.dag-ground{fill:#fff}.dag-edge{fill:none;stroke:#5f6c7b;stroke-width:1.4;marker-end:url(#dag-arrow)}.dag-off{stroke-dasharray:4 4}.dag-head{fill:#5f6c7b}
` + light.String() + `@media (prefers-color-scheme:dark){
.dag .dag-title{fill:#e4e9ee}.dag{background:#16191d}.dag-ground{fill:#16191d}.dag-edge{stroke:#98a4b1}.dag-head{fill:#98a4b1}
` + dark.String() + "}</style>\n"
}

// textWidth returns about how wide a text is.
func textWidth(text string, size float64) float64 {
	width := 0.0
	for _, r := range text {
		switch {
		case r >= 0x1100: // most scripts from here on have square characters
			width++
		case strings.ContainsRune("mwMW@%—", r):
			width += 0.88
		case strings.ContainsRune("iljft.,:;'|!()[] ", r):
			width += 0.38
		default:
			width += 0.62
		}
	}
	return width * size
}

// shorten returns the first line of a text, with as many characters at most.
func shorten(text string, most int) string {
	line, _, more := strings.Cut(strings.TrimSpace(drawable(text)), "\n")
	if runes := []rune(line); len(runes) >= most {
		line, more = string(runes[:most-1]), len(runes) > most || more
		if !more {
			line = string(runes)
		}
	}
	if more {
		line += "…"
	}
	return line
}

// escapeXML returns a text for the inside of an element or of a quoted attribute.
func escapeXML(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\n", "&#10;").Replace(drawable(text))
}
