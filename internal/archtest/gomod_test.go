package archtest_test

import (
	"os"
	"regexp"
	"testing"
)

// TestInstallable holds what `go install module/cmd/holter@VERSION` asks of go.mod: it refuses a module
// with replace or exclude lines.
func TestInstallable(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if line := regexp.MustCompile(`(?m)^\s*(replace|exclude)\b.*`).Find(text); line != nil {
		t.Errorf("go.mod has %q, so go install …/cmd/holter@VERSION would refuse it; pin another version instead", line)
	}
}
