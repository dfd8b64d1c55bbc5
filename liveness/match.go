package liveness

import (
	"strings"
	"unicode/utf8"
)

// Match reports whether a pattern matches the whole of an id. In a pattern, * stands for any run of
// characters, also an empty one, and ? for one character. It takes O(len(pattern) × len(id)) in the
// worst case.
func Match(pattern, id string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(id) {
		switch size := runeLen(id[i:]); {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && pattern[p] == '?':
			p++
			i += size
		case strings.HasPrefix(pattern[p:], id[i:i+size]):
			p += size
			i += size
		case star >= 0:
			mark += runeLen(id[mark:])
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

func runeLen(s string) int {
	_, size := utf8.DecodeRuneInString(s)
	return size
}
