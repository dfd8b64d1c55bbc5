package notify

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// fit is a limit of a service for a text: how long it may be, how its length is counted, and how its
// characters are written there.
type fit struct {
	most   int
	size   func(string) int  // default: units
	escape func(rune) string // default: as they are
}

// units returns the length of a text in UTF-16, which is at least that in characters.
func units(text string) int {
	n := 0
	for _, r := range text {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

func bytesOf(text string) int { return len(text) }

func (f fit) sizeOf(text string) int {
	if f.size == nil {
		return units(text)
	}
	return f.size(text)
}

func (f fit) write(text string) string {
	if f.escape == nil {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		b.WriteString(f.escape(r))
	}
	return b.String()
}

// text returns a text as it is written, cut between two characters if it is too long.
func (f fit) text(text string) string {
	if written := f.write(text); f.sizeOf(written) <= f.most {
		return written
	}
	const end = "…"
	room := f.most - f.sizeOf(end)
	var b strings.Builder
	for _, r := range text {
		one := f.write(string(r))
		if room -= f.sizeOf(one); room < 0 {
			break
		}
		b.WriteString(one)
	}
	return b.String() + end
}

// lines returns lines as they are written, joined. Those at the end that are too many are counted.
func (f fit) lines(lines []string) string {
	text := f.write(strings.Join(lines, "\n"))
	if f.sizeOf(text) <= f.most {
		return text
	}
	left := func(n int) string { return fmt.Sprintf("… and %d more", n) }
	room, n := f.most-f.sizeOf(left(len(lines))), 0
	var b strings.Builder
	for _, one := range lines {
		one = f.write(one) + "\n"
		if room -= f.sizeOf(one); room < 0 {
			break
		}
		n++
		b.WriteString(one)
	}
	if n == 0 {
		return f.text(strings.Join(lines, " "))
	}
	return b.String() + left(len(lines)-n)
}

// key returns a key of at most so many characters: of a longer one the beginning, and a hash.
func key(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return fit{most: most - 18}.text(text) + "~" + hash(text)
}
