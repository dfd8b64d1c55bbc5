package testmqtt

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program returns the path of a program such as mosquitto_pub. If it is missing, the test is
// skipped, or fails with HOLTER_TEST_TOOLS=all.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, folder := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/sbin", "/opt/homebrew/bin"} {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path
		}
	}
	missing(tb, "the program "+name+" is neither in PATH nor where it usually is")
	return ""
}

func missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("HOLTER_TEST_TOOLS") == "all" {
		tb.Fatalf("%s; run test/setup.sh, or install it (HOLTER_TEST_TOOLS=all asks for it)", what)
	}
	tb.Skipf("NOT TESTED: %s; run test/setup.sh, or install it", what)
}
