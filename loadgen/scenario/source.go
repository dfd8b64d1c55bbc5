package scenario

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// source is the text of a file, kept to show the line of a mistake.
type source struct {
	name  string
	lines []string
}

func newSource(name, text string) source { return source{name, strings.Split(text, "\n")} }

// mistake returns the error for a place: where it is, the message, and below them the line with a mark.
func (s source) mistake(at spot, message string) error {
	at.line = min(max(at.line, 1), len(s.lines))
	at.column = max(at.column, 1)
	return fmt.Errorf("%s:%d:%d: %s%s", s.name, at.line, at.column, message, s.excerpt(at))
}

func (s source) excerpt(at spot) string {
	text, hidden := s.open(at.line)
	line := []rune(strings.TrimRight(text, "\r "))
	if len(line) == 0 {
		return ""
	}
	line, mark := window(line, at.column-1)
	for i, c := range line {
		if !unicode.IsPrint(c) { // a tab would move the mark, an escape the terminal
			line[i] = ' '
		}
	}
	number := fmt.Sprintf("%4d", at.line)
	out := fmt.Sprintf("\n%s | %s", number, string(line))
	if mark > len(line) || hidden && mark >= len(line) {
		return out
	}
	return fmt.Sprintf("%s\n%*s | %*s", out, len(number), "", mark+1, "^")
}

// window cuts a long line down to what surrounds the mark.
func window(line []rune, mark int) ([]rune, int) {
	const width, before = 100, 60
	if len(line) <= width {
		return line, mark
	}
	from := max(0, min(mark-before, len(line)-width))
	cut := append([]rune(nil), line[from:from+width]...)
	if from > 0 {
		cut[0] = '…'
	}
	if from+width < len(line) {
		cut[width-1] = '…'
	}
	return cut, mark - from
}

var (
	keyLine = regexp.MustCompile(`^[\s-]*["']?[A-Za-z0-9_.-]+["']?\s*:(?:\s|$)`)
	words   = regexp.MustCompile(`[A-Za-z0-9_-]+`)
	login   = regexp.MustCompile(`\S+:\S*@`) // USER:PASSWORD@, with or without a scheme before
)

// secretEnd returns where the first word that may name a secret ends, or where an address with a password begins, or -1.
func secretEnd(text string) int {
	if at := login.FindStringIndex(text); at != nil {
		return at[0]
	}
	for _, at := range words.FindAllStringIndex(text, -1) {
		word := strings.ToLower(text[at[0]:at[1]])
		for _, part := range []string{"tok", "secret", "passw", "key", "auth", "cred"} {
			if strings.Contains(word, part) {
				return at[1]
			}
		}
		if len(word) <= 6 && distance(word, "token") <= 1 {
			return at[1]
		}
	}
	return -1
}

// open returns a line as it may be shown: without what follows a word that may name a secret, there and in the lines below it up to the next
// key that is not deeper.
func (s source) open(number int) (text string, hidden bool) {
	secret, depth := false, 0
	for i, line := range s.lines[:number] {
		last := i == number-1
		if secret && (!keyLine.MatchString(line) || indent(line) > depth) {
			if last {
				return "***", true
			}
			continue
		}
		end := secretEnd(line)
		comment := strings.HasPrefix(strings.TrimSpace(line), "#")
		if last && end >= 0 {
			return line[:end] + " ***", true
		}
		secret, depth = end >= 0 && !comment, indent(line)
	}
	return s.lines[number-1], false
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t-")) }

// shown quotes a key for a message, without a secret that may stick to it, as in token=SECRET.
func shown(key string) string {
	if end := secretEnd(key); end >= 0 {
		key = key[:end]
	}
	return quote(key)
}

// suggest returns the allowed word nearest to a wrong one, or nothing.
func suggest(wrong string, allowed []string) string {
	fold := strings.NewReplacer("-", "", "_", "", " ", "").Replace
	wrong = fold(strings.ToLower(wrong))
	best, least := "", max(1, utf8.RuneCountInString(wrong)/3)+1
	for _, word := range allowed {
		d := distance(wrong, fold(word))
		if len(wrong) >= 3 && strings.HasPrefix(fold(word), wrong) {
			d = min(d, 1)
		}
		if d < least {
			best, least = word, d
		}
	}
	return best
}

// distance is the number of characters to insert, delete or change between a and b (Levenshtein); of a long text it counts the length alone.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > len(y)+8 {
		return len(x)
	}
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i, c := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j, d := range y {
			cost := diagonal
			if c != d {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(y)]
}
