package packet_test

import (
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

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
