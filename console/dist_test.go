package console_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestDist checks that the committed files are those that the sources give.
func TestDist(t *testing.T) {
	root := t.TempDir()
	for _, part := range []string{"src", "npm"} {
		if err := os.CopyFS(filepath.Join(root, part), os.DirFS(part)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "-C", "build", "run", ".", root).CombinedOutput(); err != nil {
		t.Fatalf("build the console: %v\n%s", err, out)
	}
	got, want := filesOf(t, "dist"), filesOf(t, filepath.Join(root, "dist"))
	for name, text := range want {
		if got[name] != text {
			t.Errorf("dist/%s is not what the sources give; run go generate ./console", name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("dist/%s is left from other sources; run go generate ./console", name)
		}
	}
}

// TestTypes checks the types of the sources where Node and TypeScript are.
func TestTypes(t *testing.T) {
	tsc := tool(t, "typescript-5.9.3/node_modules/typescript/bin/tsc")
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "node")
	}
	if out, err := exec.CommandContext(t.Context(), node, tsc, "-p", ".").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// tool returns a file of a package that test/setup.sh installs from npm. It skips the test where that could not be done, or fails
// it with HOLTER_TEST_TOOLS=all.
func tool(t *testing.T, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(cache, "holter-tools", name)
	if _, err := os.Stat(name); err != nil {
		missing(t, name)
	}
	return name
}

// missing skips a test for want of something that test/setup.sh installs, or fails it with HOLTER_TEST_TOOLS=all.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("HOLTER_TEST_TOOLS") == "all" {
		t.Fatalf("%s is missing; run test/setup.sh (HOLTER_TEST_TOOLS=all asks for it)", what)
	}
	t.Skipf("%s is missing", what)
}

func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string, len(entries))
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}
