// Package testwait waits in tests for what another goroutine or process does.
package testwait

import (
	"testing"
	"time"
)

const (
	// limit ends tests that hang. It is no bound on how long a thing may take, and long enough for
	// a machine that has much else to do.
	limit = 2 * time.Minute
	// pause is the time from the end of one question to the next.
	pause = 2 * time.Millisecond
)

// Until returns once done reports true. It calls done at once and then again and again, always on
// the caller's goroutine. If done does not report true within two minutes, Until logs what each of
// states returns, and fails the test with a message that names what was awaited.
func Until(tb testing.TB, what string, done func() bool, states ...func() string) {
	tb.Helper()
	for begun := time.Now(); !done(); <-time.After(pause) {
		if time.Since(begun) < limit {
			continue
		}
		for _, state := range states {
			tb.Log(state())
		}
		tb.Fatalf("waited %v in vain: %s", limit, what)
	}
}
