package convention

import (
	"fmt"
	"slices"
	"strings"
)

// template is a text with captures.
type template struct {
	parts []part
}

type part struct {
	fixed   string
	capture int // capture after fixed, or -1
}

// parseTemplate parses a text with captures that have these names.
func parseTemplate(text string, names []string) (template, error) {
	var t template
	err := eachPart(text, func(fixed, name string) error {
		i := slices.Index(names, name)
		switch {
		case name == "":
			if fixed == "" {
				return nil
			}
		case i < 0 && len(names) == 0:
			return fmt.Errorf("the topic captures no %s; write {%s} in topic", name, name)
		case i < 0:
			return fmt.Errorf("the topic captures no %s; it captures %s", name, strings.Join(names, ", "))
		}
		t.parts = append(t.parts, part{fixed, i})
		return nil
	})
	return t, err
}

// expand returns the text. A single capture needs no allocation.
func (t template) expand(found *captures) string {
	if len(t.parts) == 1 {
		switch p := t.parts[0]; {
		case p.capture < 0:
			return p.fixed
		case p.fixed == "":
			return found[p.capture]
		}
	}
	var b strings.Builder
	for _, p := range t.parts {
		b.WriteString(p.fixed)
		if p.capture >= 0 {
			b.WriteString(found[p.capture])
		}
	}
	return b.String()
}
