package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestManual(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"manual", folder}, &stdout, &stderr); code != 0 {
		t.Fatalf("holter manual = %d: %s", code, &stderr)
	}
	parser, err := newParser(&commandLine{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	everyPage(parser.Model.Node, want)
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !want[e.Name()] {
			t.Errorf("%s is of no command", e.Name())
		}
		delete(want, e.Name())
	}
	for name := range want {
		t.Errorf("there is no %s", name)
	}
	page, err := os.ReadFile(filepath.Join(folder, "holter-serve.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{".TH HOLTER-SERVE 1", `\fB\-\-listen=ADDRESS,...\fR`, "Environment: HOLTER_LISTEN.", ".SH SEE ALSO"} {
		if !strings.Contains(string(page), part) {
			t.Errorf("holter-serve.1 has no %q:\n%s", part, page)
		}
	}
}

// everyPage collects the names of the pages that there should be.
func everyPage(node *kong.Node, names map[string]bool) {
	names[manualName(node)+".1"] = true
	for _, child := range node.Children {
		if !child.Hidden {
			everyPage(child, names)
		}
	}
}

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"plain":      "plain",
		"--listen":   `\-\-listen`,
		`a\b`:        `a\eb`,
		".TH is one": `\&.TH is one`,
		"'quoted'":   `\&'quoted'`,
	} {
		if got := escape(text); got != want {
			t.Errorf("escape(%q) = %q, want %q", text, got, want)
		}
	}
}
