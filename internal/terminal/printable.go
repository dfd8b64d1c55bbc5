package terminal

import (
	"strconv"
	"strings"
	"unicode"
)

// Shorten returns a text of at most so many columns. What is left out becomes …, at the end or, if
// inner is set, in the middle.
func Shorten(text string, columns int, inner bool) string {
	if width(text) <= columns {
		return text
	}
	if columns < 1 {
		return ""
	}
	head := columns - 1
	tail := 0
	if inner {
		tail = head / 2
		head -= tail
	}
	runes := []rune(text)
	from, used := 0, 0
	for from < len(runes) && used+runeWidth(runes[from]) <= head {
		used += runeWidth(runes[from])
		from++
	}
	to := len(runes)
	for used = 0; to > from && used+runeWidth(runes[to-1]) <= tail; to-- {
		used += runeWidth(runes[to-1])
	}
	return string(runes[:from]) + "…" + string(runes[to:])
}

// width returns how many columns of a terminal a text takes.
func width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

// runeWidth is exact enough for alignment: two columns for the wide letters of East Asia and emoji,
// none for marks that combine with the letter before.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// Printable returns a text with escapes for whatever would steer a terminal or be invisible. Ids and
// messages come from devices, so anybody may have written them.
func Printable(text string) string {
	if strings.IndexFunc(text, hidden) < 0 && !strings.ContainsRune(text, unicode.ReplacementChar) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if !hidden(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

// hidden reports whether a letter has no visible shape of its own.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Cf, r) || bidirectional(r)
}

// bidirectional reports whether a letter changes the direction of those around it.
func bidirectional(r rune) bool {
	return r == 0x61c || r >= 0x200e && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}
