package strictyaml

import (
	"regexp"
	"strings"
)

// shown returns a line as it may be shown. A token must not be, nor what looks
// like a misspelt one: a word that may name a secret hides the rest of its
// line, and the lines below up to the next key that is not deeper.
func (s *source) shown(number int) (text string, hidden bool) {
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
// an address with a password begins, or -1.
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

// quoteKey quotes a key without a secret that may stick to it: token=SECRET.
func quoteKey(key string) string {
	if end := secretEnd(key); end >= 0 {
		key = key[:end]
	}
	return Quote(key)
}
