package testenv

import (
	"os"
	"testing"
	"time"
)

// soakVariable says how long tests go on whose length is a choice: a duration, as 1h.
const soakVariable = "HOLTER_SOAK"

// SoakFor returns how long a test of make soak goes on: usual, or what HOLTER_SOAK says.
func SoakFor(tb testing.TB, usual time.Duration) time.Duration {
	tb.Helper()
	text := os.Getenv(soakVariable)
	if text == "" {
		return usual
	}
	length, err := time.ParseDuration(text)
	if err != nil || length <= 0 {
		tb.Fatalf("%s is %q, want a duration such as 1h", soakVariable, text)
	}
	return length
}
