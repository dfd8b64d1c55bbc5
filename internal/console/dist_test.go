package console_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
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
			t.Errorf("dist/%s is not what the sources give; run go generate ./internal/console", name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("dist/%s is left from other sources; run go generate ./internal/console", name)
		}
	}
}

// TestTypes checks the types of the sources where Node and TypeScript are.
func TestTypes(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	node, modules := testenv.Node(t, "typescript")
	tsc := filepath.Join(modules, "typescript", "bin", "tsc")
	if out, err := exec.CommandContext(t.Context(), node, tsc, "-p", ".").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
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
