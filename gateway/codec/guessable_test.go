package codec_test

import (
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
)

func TestGuessable(t *testing.T) {
	tests := []struct {
		name, secret string
		want         bool
	}{
		{"none", "", true},
		{"a word", "hunter2", true},
		{"words", "correct-horse-battery-staple", true},
		{"hexadecimal, 128 bits", "9f86d081884c7d659a2feaa0c55ad015", false},
		{"hexadecimal, less", "9f86d081884c7d659a2feaa0c55ad01", true},
		{"base64, 128 bits", "n4bQgYhMfWWaL+qgxVrQFQ", false},
		{"base64, less", "n4bQgYhMfWWaL+qgxVrQF", true},
		{"digits, 128 bits", "948201736455029183746510293847561029384", false},
		{"digits, an IMEI twice", "864717003283581864717003283581", true},
		{"bytes, 128 bits", "\x9f\x86\xd0\x81\x88\x4c\x7d\x65\x9a\x2f\xea\xa0\xc5\x5a\xd0\x15", false},
		{"bytes, less", "\x9f\x86\xd0\x81\x88\x4c\x7d\x65", true},
		{"one byte again and again", "\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b", true},
		{"one letter again and again", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true},
	}
	for _, tt := range tests {
		if got := codec.Guessable([]byte(tt.secret)); got != tt.want {
			t.Errorf("%s: Guessable(%q) = %v, want %v", tt.name, tt.secret, got, tt.want)
		}
	}
}
