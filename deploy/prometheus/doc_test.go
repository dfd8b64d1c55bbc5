// Package prometheus_test runs a real Prometheus, with the files of this directory, against a real Holter,
// and asks it all that the dashboard of deploy/grafana and the alert rules ask.
package prometheus_test

import (
	"os"
	"os/exec"
	"testing"
)

// tool returns the path of a program that test/setup.sh installs. Without it the test is skipped, or
// fails with HOLTER_TEST_TOOLS=all.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("HOLTER_TEST_TOOLS") == "all" {
		t.Fatalf("%s is not installed; run test/setup.sh (HOLTER_TEST_TOOLS=all asks for it)", name)
	}
	t.Skipf("NOT TESTED: %s is not installed; run test/setup.sh", name)
	return ""
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
