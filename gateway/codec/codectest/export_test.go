package codectest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// fake is a test that notes how it fails.
type fake struct {
	testing.TB // nil: what the kit does not use is not there

	failures []string
}

func (f *fake) Helper() {}

func (f *fake) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func (f *fake) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

// fails runs a check, and returns what it says if it fails.
func fails(run func(tb testing.TB)) string {
	f, done := &fake{}, make(chan struct{})
	go func() {
		defer close(done)
		run(f)
	}()
	<-done
	return strings.Join(f.failures, "\n")
}

// FailureOf is what a check says of a kit, or, if the name is "kit", what is wrong with the kit.
func FailureOf(k Kit, name string) string {
	text := fails(k.complete)
	for _, c := range checks() {
		if text == "" && c.name == name {
			return fails(func(tb testing.TB) {
				tb.Helper()
				c.run(tb, k)
			})
		}
	}
	return text
}

// FailureOfInput is what a fuzz target says of an input.
func FailureOfInput(k Kit, input []byte) string {
	return fails(func(tb testing.TB) {
		tb.Helper()
		fuzzOne(tb, k, input)
	})
}
