package httpapi

import (
	"testing"
	"time"
	"unsafe"
)

// setBack returns an instant as time.Now does once the wall clock was set back, forward if by is negative: only the wall clock differs.
func setBack(t time.Time, by time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t)) // the first word: a bit, 33 bits of seconds, 30 bits of nanoseconds
	*wall -= uint64(by/time.Second) << 30
	return t
}

// TestFailingByTheMonotonicClock lets the wall clock be set while tokens cannot be checked, and afterwards.
func TestFailingByTheMonotonicClock(t *testing.T) {
	began := time.Now()
	if d := setBack(began, time.Hour).Round(0).Sub(began.Round(0)); d != -time.Hour {
		t.Fatalf("the wall clock was set by %v", d)
	}
	const within = 3 * time.Second
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		tokens := newTokens(nil)
		if tokens.failing(began, within) {
			t.Error("failing before it has failed")
		}
		tokens.noteFailure(began)
		if !tokens.failing(setBack(began.Add(within-1), by), within) {
			t.Errorf("not failing any more within %v, the wall clock set back by %v", within, by)
		}
		if tokens.failing(setBack(began.Add(within), by), within) {
			t.Errorf("still failing after %v, the wall clock set back by %v", within, by)
		}
	}
}
