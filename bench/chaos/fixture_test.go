package chaos

import (
	"strings"
	"testing"
)

// builder is a text that can be looked at.
type builder struct{ strings.Builder }

func (b *builder) has(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no %q in\n%s", part, b.String())
		}
	}
}
