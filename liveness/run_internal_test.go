package liveness

import (
	"runtime"
	"strings"
	"testing"
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
				kept = append(kept, LastOf(strings.Repeat(tt.line, long/len(tt.line))))
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
