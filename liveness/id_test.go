package liveness_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holter-iot/holter/liveness"
)

func TestValidateID(t *testing.T) {
	tests := []struct {
		name, id string
		ok       bool
	}{
		{"plain", "pump-1", true},
		{"one byte", "x", true},
		{"any script", "größe/語/🙂", true},
		{"blanks and punctuation", "../a b:c/d#+*?", true},
		{"composed", "caf\u00e9", true},
		{"the replacement character itself", "\ufffd", true},
		{"longest", strings.Repeat("x", liveness.MaxID), true},
		{"longest, of several bytes each", strings.Repeat("ü", liveness.MaxID/2), true},
		{"empty", "", false},
		{"too long", strings.Repeat("x", liveness.MaxID+1), false},
		{"too long by its bytes", strings.Repeat("ü", liveness.MaxID/2) + "x", false},
		{"newline", "a\nb", false},
		{"zero byte", "\x00", false},
		{"delete", "a\x7f", false},
		{"C1 control", "a\u0085", false},
		{"a blank in front", " a", false},
		{"a blank behind", "a\u00a0", false},
		{"a blank alone", " ", false},
		{"a character without width", "a\u200bb", false},
		{"a byte order mark", "\ufeffa", false},
		{"from right to left", "a\u202eb", false},
		{"a soft hyphen", "a\u00adb", false},
		{"a line separator", "a\u2028b", false},
		{"a noncharacter", "a\uffffb", false},
		{"another", "\ufdd0", false},
		{"one of another plane", "a\U0001fffe", false},
		{"decomposed", "cafe\u0301", false},
		{"a byte that is no UTF-8", "a\xff", false},
		{"a character cut short", "\xc3", false},
		{"a surrogate", "\xed\xa0\x80", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := liveness.ValidateID(tt.id)
			if (err == nil) != tt.ok {
				t.Errorf("ValidateID(%q) = %v, want ok %v", tt.id, err, tt.ok)
			}
			if err != nil && !errors.Is(err, liveness.ErrInvalidID) {
				t.Errorf("ValidateID(%q) = %v, which is no ErrInvalidID", tt.id, err)
			}
		})
	}
}
