package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// source is the text of the file, kept to show the line of a mistake.
type source struct {
	name  string
	lines []string
}

func newSource(name, text string) source {
	return source{name, strings.Split(text, "\n")}
}

// mistake returns the error for a place in the file: its position, the
// message, and below them the line. Both numbers count from 1, in characters.
func (s source) mistake(line, column int, message string) error {
	line = min(max(line, 1), len(s.lines))
	column = max(column, 1)
	return fmt.Errorf("%s:%d:%d: %s%s", s.name, line, column, message, s.excerpt(line, column))
}

// excerpt shows one line with a mark below the column.
func (s source) excerpt(line, column int) string {
	text, hidden := s.shown(line)
	runes := []rune(strings.TrimRight(text, "\r "))
	if len(runes) == 0 {
		return ""
	}
	mark := column - 1
	runes, mark = window(runes, mark)
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

// shown returns a line as it may be shown. The token must not be, nor what
// looks like a misspelt token: a word that may name a secret hides the rest of
// its line, and the lines below up to the next key that is not deeper.
func (s source) shown(number int) (text string, hidden bool) {
	secret, depth := false, 0
	for i, line := range s.lines[:number] {
		last := i == number-1
		if secret && !(keyLine.MatchString(line) && indent(line) <= depth) {
			if last {
				return "***", true
			}
			continue
		}
		end := secretEnd(line)
		if last && end >= 0 {
			return line[:end] + " ***", true
		}
		comment := strings.HasPrefix(strings.TrimSpace(line), "#")
		secret, depth = end >= 0 && !comment, indent(line)
	}
	return s.lines[number-1], false
}

var (
	keyLine = regexp.MustCompile(`^\s*(?:- +)*["']?[A-Za-z0-9_.-]+["']?\s*:(?:\s|$)`)
	words   = regexp.MustCompile(`[A-Za-z0-9_-]+`)
	login   = regexp.MustCompile(`\S+:\S*@`) // USER:PASSWORD@, with or without a scheme before
)

func indent(text string) int { return len(text) - len(strings.TrimLeft(text, " \t")) }

// secretEnd returns where the first word that may name a secret ends, or where
// a URL with a password begins, or -1.
func secretEnd(text string) int {
	if at := login.FindStringIndex(text); at != nil {
		return at[0]
	}
	for _, at := range words.FindAllStringIndex(text, -1) {
		if namesSecret(text[at[0]:at[1]]) {
			return at[1]
		}
	}
	return -1
}

func namesSecret(word string) bool {
	word = strings.ToLower(word)
	for _, part := range []string{"tok", "secret", "passw", "key", "auth", "cred", "datab"} {
		if strings.Contains(word, part) {
			return true
		}
	}
	return len(word) <= 6 && distance(word, "token") <= 1
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

// distance is the number of characters to insert, delete or change between a
// and b (Levenshtein), or more than any near miss if a is too long for one.
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
