package liveness_test

import (
	"flag"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) {
	// The ants package keeps a pool of its own, which nobody here uses.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
	)
}

// fewer lets the test, whose runs are long, try n of them in make test and twice as many in make check, unless -rapid.checks asks for a
// number.
func fewer(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if asked := checks.Value.String(); asked == checks.DefValue {
		if err := checks.Value.Set(strconv.Itoa(atLevel(n, 2*n))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = checks.Value.Set(asked) })
	}
}

// atLevel returns the number of rounds that make test does, or those of make check.
func atLevel(test, check int) int {
	if testenv.Checks() {
		return check
	}
	return test
}

// seeded lets the test try the same n runs each time, unless -rapid.checks or -rapid.seed asks for others.
func seeded(t *testing.T, n int) {
	t.Helper()
	seed, checks := flag.Lookup("rapid.seed"), flag.Lookup("rapid.checks")
	if seed.Value.String() != seed.DefValue || checks.Value.String() != checks.DefValue {
		return
	}
	for f, value := range map[*flag.Flag]string{seed: "1", checks: strconv.Itoa(n)} {
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	}
}
