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

// Python returns the path of a Python that has a module. If there is none, the test is skipped, or
// fails with HOLTER_TEST_TOOLS=all.
func Python(tb testing.TB, module string) string {
	tb.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} { // a distribution's modules are for its own Python
		if path, err := exec.LookPath(python); err == nil && exec.CommandContext(tb.Context(), path, "-c", "import "+module).Run() == nil {
			return path
		}
	}
	missing(tb, "no python3, in PATH or in /usr/bin, has the module "+module)
	return ""
}

func missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("HOLTER_TEST_TOOLS") == "all" {
		tb.Fatalf("%s; run test/setup.sh, or install it (HOLTER_TEST_TOOLS=all asks for it)", what)
	}
	tb.Skipf("NOT TESTED: %s; run test/setup.sh, or install it", what)
}
