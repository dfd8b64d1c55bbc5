// Package testenv says which tests run, and finds the programs that some of them need.
//
// There are three levels, and each contains the one before: make test runs what says that the program works, make check all that a change
// has to pass, make soak what needs hours or a lot of real time. HOLTER_TEST=check and HOLTER_TEST=soak choose the level of a single test,
// too:
//
//	HOLTER_TEST=check go test ./internal/store -run TestKilled
//
// A program that is missing skips the tests that need it; with HOLTER_TEST_TOOLS=all it fails them.
package testenv

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What the environment is asked for.
const (
	levelVariable = "HOLTER_TEST"
	toolsVariable = "HOLTER_TEST_TOOLS"
)

// The reasons for which a test is left out of a level. The runner of the tests counts these apart from those that lack a program.
const (
	CheckOnly = "belongs to make check"
	SoakOnly  = "belongs to make soak"
)

// At is the variable that chooses a level: test, check or soak.
func At(level string) string { return levelVariable + "=" + level }

// Check skips the test outside of make check and make soak.
func Check(tb testing.TB) {
	tb.Helper()
	if !Checks() {
		tb.Skip(CheckOnly)
	}
}

// Soak skips the test outside of make soak.
func Soak(tb testing.TB) {
	tb.Helper()
	if os.Getenv(levelVariable) != "soak" {
		tb.Skip(SoakOnly)
	}
}

// Checks reports whether this is make check or make soak, for a test that tries more there.
func Checks() bool {
	level := os.Getenv(levelVariable)
	return level == "check" || level == "soak"
}

// Together lets n tests at a time run of those that call t.Parallel, for a package whose tests mainly wait. TestMain calls it; -parallel overrides it.
func Together(n int) {
	flag.Parse() //nolint:revive // TestMain is the main function of tests
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if asked {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // only without package testing
	}
}

// Missing skips the test because something is not installed, or fails it if nothing may be missing.
func Missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv(toolsVariable) == "all" {
		tb.Fatalf("%s; run deploy/testing/setup.sh, or install it (%s=all asks for it)", what, toolsVariable)
	}
	tb.Skipf("NOT TESTED: %s; run deploy/testing/setup.sh, or install it", what)
}

// SharedMemory ends the test as [Missing] does if no file can be made in /dev/shm.
func SharedMemory(tb testing.TB) {
	tb.Helper()
	f, err := os.CreateTemp("/dev/shm", "holter-test-*")
	if err != nil {
		Missing(tb, "memory that outlives a process: "+err.Error())
	}
	_, _ = f.Close(), os.Remove(f.Name())
}

// Program returns the path of a program such as mosquitto_pub, or ends the test as [Missing] does.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	path, err := Find(name)
	if err != nil {
		Missing(tb, err.Error())
	}
	return path
}

// Find returns the path of a program, in PATH or where distributions hide it.
func Find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, folder := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin",
		"/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/sbin", "/opt/homebrew/bin",
	} {
		found, _ := filepath.Glob(filepath.Join(folder, name)) // it is a good pattern
		for _, path := range slices.Backward(found) {          // the newest version first
			if path, err := exec.LookPath(path); err == nil { // it may be run
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("the program %s is neither in PATH nor where it usually is", name)
}

// Python returns the path of a Python that has a module, or ends the test as [Missing] does.
func Python(tb testing.TB, module string) string {
	tb.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} { // a distribution's modules are for its own Python
		if path, err := exec.LookPath(python); err == nil && exec.CommandContext(tb.Context(), path, "-c", "import "+module).Run() == nil {
			return path
		}
	}
	Missing(tb, "no python3, in PATH or in /usr/bin, has the module "+module)
	return ""
}

// Node returns the path of node, and the folder node_modules that has a package of npm, which deploy/testing/setup.sh installs. If one of them is
// missing, it ends the test as [Missing] does.
func Node(tb testing.TB, pkg string) (node, modules string) {
	tb.Helper()
	node, modules, err := FindNode(pkg)
	if err != nil {
		Missing(tb, err.Error())
	}
	return node, modules
}

// FindNode is [Node] for a test that can do without. The error names what is missing.
func FindNode(pkg string) (node, modules string, err error) {
	if node, err = exec.LookPath("node"); err != nil {
		return "", "", fmt.Errorf("node is not in PATH: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("find the npm package %s: %w", pkg, err)
	}
	tools := filepath.Join(cache, "holter-tools")
	found, err := filepath.Glob(filepath.Join(tools, "*", "node_modules", pkg))
	if err != nil {
		return "", "", fmt.Errorf("find the npm package %s: %w", pkg, err)
	}
	if len(found) == 0 {
		return "", "", fmt.Errorf("the npm package %s is not below %s", pkg, tools)
	}
	return node, strings.TrimSuffix(found[len(found)-1], string(filepath.Separator)+filepath.FromSlash(pkg)), nil // the newest version, mostly
}
