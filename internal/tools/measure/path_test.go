package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// TestPaths checks that a heartbeat and a verdict run no more functions than docs/know/path.md says. Verdicts
// get a tenth more: some functions run more or less often, depending on how many verdicts are written together.
func TestPaths(t *testing.T) {
	testenv.Check(t)
	root := filepath.Join("..", "..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "know", "path.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`(\d+) functions in (\d+) files`).FindAllStringSubmatch(string(page), -1)
	if len(said) != 2 {
		t.Fatalf("the page says %d lengths, want 2", len(said))
	}
	heartbeat, verdict, err := measurePaths(root)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range []walk{heartbeat, verdict} {
		functions, _ := strconv.Atoi(said[i][1])
		files, _ := strconv.Atoi(said[i][2])
		if more := i * functions / 10; p.functions() > functions+more || len(p) > files+i*files/10 {
			t.Errorf("%d functions in %d files, and the page says %s", p.functions(), len(p), said[i][0])
		}
	}
}
