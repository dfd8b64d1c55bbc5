package strictyaml

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// source is the text of a file, kept to show the line of a mistake.
type source struct {
	name  string
	lines []string
}

func newSource(name, text string) *source { return &source{name, strings.Split(text, "\n")} }

// mistake returns the error for a place in the file: its position, the
// message, and below them the line. Both numbers count from 1, in characters.
func (s *source) mistake(line, column int, message string) error {
	line = min(max(line, 1), len(s.lines))
	column = max(column, 1)
	return fmt.Errorf("%s:%d:%d: %s%s", s.name, line, column, message, s.excerpt(line, column))
}

// excerpt shows one line with a mark below the column.
func (s *source) excerpt(line, column int) string {
	text, hidden := s.shown(line)
	runes := []rune(strings.TrimRight(text, "\r "))
	if len(runes) == 0 {
		return ""
	}
	runes, mark := window(runes, column-1)
	for i, c := range runes {
		if !unicode.IsPrint(c) { // a tab would move the mark, an escape the terminal
			runes[i] = ' '
		}
	}
	number := fmt.Sprintf("%4d", line)
	out := fmt.Sprintf("\n%s | %s", number, string(runes))
	if mark > len(runes) || hidden && mark >= len(runes) {
		return out
	}
	return fmt.Sprintf("%s\n%*s | %*s", out, len(number), "", mark+1, "^")
}

// window cuts a long line down to what surrounds the mark.
func window(runes []rune, mark int) ([]rune, int) {
	const width, before = 100, 60
	if len(runes) <= width {
		return runes, mark
	}
	from := max(0, min(mark-before, len(runes)-width))
	cut := slices.Clone(runes[from : from+width])
	if from > 0 {
		cut[0] = '…'
	}
	if from+width < len(runes) {
		cut[width-1] = '…'
	}
	return cut, mark - from
}
