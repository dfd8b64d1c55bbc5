package liveness_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holter-iot/holter/liveness"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		name, pattern, id string
		want              bool
	}{
		{"empty pattern", "", "a", false},
		{"both empty", "", "", true},
		{"itself", "pump-1", "pump-1", true},
		{"a part", "pump", "pump-1", false},
		{"another end", "pump-1", "pump-2", false},
		{"star alone", "*", "anything", true},
		{"star for nothing", "pump*", "pump", true},
		{"star across slashes", "site-7/*", "site-7/hall/2/pump", true},
		{"star in front", "*-test", "pump-test", true},
		{"star in front, another end", "*-test", "pump-test2", false},
		{"star in the middle", "a*c", "abbbc", true},
		{"star has to try again", "a*bc", "abbbc", true},
		{"two stars", "*-7/*", "site-7/x", true},
		{"stars in a row", "a***b", "ab", true},
		{"trailing stars", "a**", "a", true},
		{"question mark", "pump-?", "pump-1", true},
		{"question mark for nothing", "pump-?", "pump-", false},
		{"question mark for a slash", "a?b", "a/b", true},
		{"question mark for one character of several bytes", "a?b", "aüb", true},
		{"two question marks for it", "a??b", "aüb", false},
		{"star and question mark", "*?", "", false},
		{"star and question mark, one character", "*?", "語", true},
		{"several bytes", "größe-*", "größe-1", true},
		{"half a character", "\xc3*", "ü", false},
		{"star in the id", "a*", "a*b", true},
		{"literal after a star in the id", "a*b", "a*", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := liveness.Match(tt.pattern, tt.id); got != tt.want {
				t.Errorf("Match(%q, %q) = %v, want %v", tt.pattern, tt.id, got, tt.want)
			}
		})
	}
}

// A matcher that tried all alternatives would take for ever.
func TestMatchPathological(t *testing.T) {
	pattern := strings.Repeat("*a", 120) + "b"
	for _, id := range []string{strings.Repeat("a", liveness.MaxID), strings.Repeat("ü", liveness.MaxID/2)} {
		if liveness.Match(pattern, id) {
			t.Errorf("Match(%q, %q) = true, want false", pattern, id)
		}
	}
}

// naiveMatch fills the table of matching prefixes.
func naiveMatch(pattern, id []rune) bool {
	row := make([]bool, len(id)+1)
	row[0] = true
	for _, p := range pattern {
		next := make([]bool, len(id)+1)
		next[0] = row[0] && p == '*'
		for i, r := range id {
			if p == '*' {
				next[i+1] = row[i+1] || next[i]
			} else {
				next[i+1] = row[i] && (p == '?' || p == r)
			}
		}
		row = next
	}
	return row[len(id)]
}

func FuzzMatch(f *testing.F) {
	f.Add("*a*b", "xaxxb")
	f.Add("a?ü*", "abüüü")
	f.Add("**?*?", "ab")
	f.Add("site-?/*", "site-7/pump")
	f.Fuzz(func(t *testing.T, pattern, id string) {
		if len(pattern) > 256 || len(id) > 256 || !utf8.ValidString(pattern) || !utf8.ValidString(id) {
			t.Skip()
		}
		if got, want := liveness.Match(pattern, id), naiveMatch([]rune(pattern), []rune(id)); got != want {
			t.Errorf("Match(%q, %q) = %v, want %v", pattern, id, got, want)
		}
	})
}
