package packet_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

func TestValidTopic(t *testing.T) {
	for topic, want := range map[string]bool{
		"a":                         true,
		"/":                         true,
		"a//b":                      true,
		" ":                         true,
		"$SYS/a":                    true,
		"\u20ac/\U0001f600":         true,
		"\x01\uffff":                true,
		strings.Repeat("a", 65_535): true,
		"":                          false,
		"a+":                        false,
		"#":                         false,
		"a\x00":                     false,
		"\xff":                      false,
		"\xed\xa0\x80":              false,
		strings.Repeat("a", 65_536): false,
	} {
		if got := packet.ValidTopic([]byte(topic)); got != want {
			t.Errorf("ValidTopic(%.20q) = %v, want %v", topic, got, want)
		}
	}
}

func TestValidFilter(t *testing.T) {
	for filter, want := range map[string]bool{
		"a":                         true,
		"/":                         true,
		"+":                         true,
		"#":                         true,
		"/#":                        true,
		"a/#":                       true,
		"+/+":                       true,
		"+/a/#":                     true,
		"/+":                        true,
		"a/+/b":                     true,
		"$share":                    true,
		"$shared/a":                 true,
		"$share/g/a":                true,
		"$share/g//":                true,
		"$share/g/#":                true,
		"$share/g/+/a":              true,
		"$share/g/$share/h/a":       true,
		strings.Repeat("a", 65_535): true,
		"":                          false,
		"a+":                        false,
		"+a":                        false,
		"a/b+/c":                    false,
		"a/+b/c":                    false,
		"++":                        false,
		"#/":                        false,
		"#/a":                       false,
		"a#":                        false,
		"a/#/b":                     false,
		"+#":                        false,
		"##":                        false,
		"a\x00":                     false,
		"\xff/#":                    false,
		"$share/":                   false,
		"$share/g":                  false,
		"$share/g/":                 false,
		"$share//a":                 false,
		"$share/+/a":                false,
		"$share/g#/a":               false,
		"$share/g/a#":               false,
		strings.Repeat("a", 65_536): false,
	} {
		if got := packet.ValidFilter([]byte(filter)); got != want {
			t.Errorf("ValidFilter(%.20q) = %v, want %v", filter, got, want)
		}
	}
}

func TestSplitShare(t *testing.T) {
	tests := []struct {
		filter, group, rest string
		ok                  bool
	}{
		{"$share/g/a/b", "g", "a/b", true},
		{"$share/g//", "g", "/", true},
		{"$share/g/a+", "g", "a+", true},
		{"a/b", "", "", false},
		{"$share", "", "", false},
		{"$share/g", "", "", false},
		{"$share/g/", "", "", false},
		{"$share//a", "", "", false},
		{"$share/+/a", "", "", false},
	}
	for _, tt := range tests {
		group, rest, ok := packet.SplitShare([]byte(tt.filter))
		if string(group) != tt.group || string(rest) != tt.rest || ok != tt.ok {
			t.Errorf("SplitShare(%q) = %q, %q, %v, want %q, %q, %v", tt.filter, group, rest, ok, tt.group, tt.rest, tt.ok)
		}
	}
}
