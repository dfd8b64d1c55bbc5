package testenv

import (
	"flag"
	"strconv"
	"testing"
)

// Tries lets a test that calls rapid.Check try n times in make test, and checks times in make check, unless -rapid.checks asks for a number.
func Tries(tb testing.TB, n, checks int) {
	tb.Helper()
	f := flag.Lookup("rapid.checks")
	asked := f.Value.String()
	if asked != f.DefValue {
		return
	}
	if Checks() {
		n = checks
	}
	if err := f.Value.Set(strconv.Itoa(n)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Value.Set(asked) })
}
