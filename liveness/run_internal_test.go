package liveness

import (
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLastOfKeepsNoMore checks that the end of a text does not keep all of it in memory.
func TestLastOfKeepsNoMore(t *testing.T) {
	const texts, long = 200, 100 << 10
	for _, tt := range []struct{ name, line string }{
		{"a line", strings.Repeat("x", 79) + "\n"},
		{"no line", "y"},
		{"characters of three bytes", "\u20ac"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			kept := make([]string, 0, texts)
			runtime.GC()
			runtime.ReadMemStats(&before)
			for range texts {
				kept = append(kept, lastOf(strings.Repeat(tt.line, long/len(tt.line)), MaxMessage))
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
			if most := int64(texts * MaxMessage * 2); grown > most {
				t.Errorf("%d ends of texts keep %d bytes, want at most %d", len(kept), grown, most)
			}
			runtime.KeepAlive(kept)
		})
	}
}

// Of a long message the end is kept.
func TestLastOf(t *testing.T) {
	long := strings.Repeat("ä", 20<<10) + "\n" + strings.Repeat("x", 5000)
	for _, tt := range []struct{ text, want string }{
		{"short", "short"},
		{long, strings.Repeat("x", 5000)},
		{strings.Repeat("x", 11<<10), strings.Repeat("x", 10<<10)},
		{"a" + strings.Repeat("ä", 6<<10), strings.Repeat("ä", 5<<10)},
	} {
		if got := lastOf(tt.text, MaxMessage); got != tt.want || !utf8.ValidString(got) {
			t.Errorf("lastOf of %d bytes has %d, want %d", len(tt.text), len(got), len(tt.want))
		}
	}
}
