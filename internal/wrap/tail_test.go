package wrap

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	tests := []struct {
		name   string
		writes []string
		want   string
	}{
		{"nothing", nil, ""},
		{"less", []string{"ab", "", "c"}, "abc"},
		{"just full", []string{"abcd", "efgh"}, "abcdefgh"},
		{"one more", []string{"abcd", "efgh", "i"}, "bcdefghi"},
		{"round", []string{"abcdefg", "hij", "klmnop"}, "ijklmnop"},
		{"more at once", []string{"xyz", "abcdefghijk"}, "defghijk"},
		{"exactly as much at once", []string{"xyz", "abcdefgh"}, "abcdefgh"},
		{"a character in two", []string{"aé", "bcdefgh"}, "bcdefgh"},
		{"bytes that are no characters", []string{"\xa9\xa9\xa9\xa9\xa9\xa9\xa9\xa9\xa9"}, "\xa9\xa9\xa9\xa9\xa9"},
		{"NUL", []string{"\x00\x00\x00\x00\x00\x00\x00\x00\x01"}, "\x00\x00\x00\x00\x00\x00\x00\x01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kept := &tail{ring: make([]byte, 8)}
			for _, w := range tt.writes {
				kept.write([]byte(w))
			}
			if got := kept.text(); got != tt.want {
				t.Errorf("text() = %q, want %q", got, tt.want)
			}
		})
	}
}

// Whatever is written, in whatever parts, its end is kept.
func TestTailAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		size := 1 + rnd.IntN(20)
		kept := &tail{ring: make([]byte, size)}
		var written strings.Builder
		for range rnd.IntN(12) {
			part := strings.Repeat(string(rune('a'+rnd.IntN(26))), rnd.IntN(30))
			kept.write([]byte(part))
			written.WriteString(part)
		}
		all := written.String()
		if got, want := kept.text(), all[max(0, len(all)-size):]; got != want {
			t.Fatalf("after %q, %d bytes: %q, want %q", all, size, got, want)
		}
	}
}
