// Package testnode finds node and the npm packages that test/setup.sh installs, for tests that ask
// programs of another language.
package testnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Find returns the path of node, and the folder node_modules that holds a package. The error names
// what is missing, and says what to do.
func Find(pkg string) (node, modules string, err error) {
	if node, err = exec.LookPath("node"); err != nil {
		return "", "", fmt.Errorf("node is not in PATH; install node, then run test/setup.sh: %w", err)
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", "", fmt.Errorf("find the npm package %s: %w", pkg, err)
		}
		cache = filepath.Join(home, ".cache")
	}
	tools := filepath.Join(cache, "holter-tools")
	found, err := filepath.Glob(filepath.Join(tools, "*", "node_modules", pkg, "package.json"))
	if err != nil {
		return "", "", fmt.Errorf("find the npm package %s: %w", pkg, err)
	}
	if len(found) == 0 {
		return "", "", fmt.Errorf("the npm package %s is not below %s; run test/setup.sh", pkg, tools)
	}
	file := found[len(found)-1] // the newest version, mostly
	return node, file[:len(file)-len(filepath.Join(pkg, "package.json"))-1], nil
}

// Need is [Find] for a test that cannot do without: if something is missing, the test is skipped,
// or fails with HOLTER_TEST_TOOLS=all.
func Need(tb testing.TB, pkg string) (node, modules string) {
	tb.Helper()
	node, modules, err := Find(pkg)
	switch {
	case err == nil:
	case os.Getenv("HOLTER_TEST_TOOLS") == "all":
		tb.Fatalf("%v (HOLTER_TEST_TOOLS=all asks for it)", err)
	default:
		tb.Skipf("NOT TESTED: %v", err)
	}
	return node, modules
}
