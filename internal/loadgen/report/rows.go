package report

import (
	"strings"
	"unicode/utf8"
)

// row is a heading with some words, which take as many lines as they need.
type row struct {
	Head  string
	Words []string
}

const (
	headWidth = 14
	maxLines  = 3 // of one row
)

// lines wraps a row at a width. Words beyond maxLines are left out, and the last line counts them.
func (r row) lines(columns int) []string {
	room := max(columns-headWidth-2, 16)
	var lines []string
	line, used := "", 0
	for i, w := range r.Words {
		if w == "" {
			continue
		}
		n := width(w)
		switch {
		case used == 0:
			line, used = w, n
		case used+3+n <= room:
			line, used = line+"   "+w, used+3+n
		case len(lines) == maxLines-1:
			line += "   and " + plural(len(r.Words)-i, "more kind")
			return r.dress(append(lines, line))
		default:
			lines = append(lines, line)
			line, used = w, n
		}
	}
	return r.dress(append(lines, line))
}

func (r row) dress(lines []string) []string {
	for i := range lines {
		head := ""
		if i == 0 {
			head = r.Head
		}
		lines[i] = "  " + head + strings.Repeat(" ", headWidth-len(head)) + lines[i]
	}
	return lines
}

// width counts the characters of a text without its colours.
func width(text string) int {
	n := 0
	for {
		before, after, colored := strings.Cut(text, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !colored {
			return n
		}
		_, text, _ = strings.Cut(after, "m")
	}
}

// ascii replaces the other characters that the screen uses.
func ascii(text string) string {
	text = strings.NewReplacer("█", "#", "░", ".", "▸", ">", "µs", "us", "…", "~", "×", "x").Replace(text)
	return strings.Map(func(r rune) rune {
		if r > 126 {
			return '?'
		}
		return r
	}, text)
}
