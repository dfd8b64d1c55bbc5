package run

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplaceSection(t *testing.T) {
	const whole = "<!-- gateway:begin -->\nnew\n<!-- gateway:end -->"
	tests := []struct {
		name, document, want string
		fails                bool
	}{
		{name: "no file", want: "\n## Gateway\n\n" + whole + "\n"},
		{name: "no section", document: "# B\n\n## Timers\n", want: "# B\n\n## Timers\n\n## Gateway\n\n" + whole + "\n"},
		{name: "another section", document: "<!-- x:begin -->\n<!-- x:end -->\n", want: "<!-- x:begin -->\n<!-- x:end -->\n\n## Gateway\n\n" + whole + "\n"},
		{name: "old section", document: "a\n<!-- gateway:begin -->\nold\n<!-- gateway:end -->\nb\n", want: "a\n" + whole + "\nb\n"},
		{name: "no end", document: "a\n<!-- gateway:begin -->\nold\n", fails: true},
		{name: "no begin", document: "a\n<!-- gateway:end -->\n", fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := replaceSection(tt.document, "Gateway", "gateway", "new\n")
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("replaceSection(%q) = %q, %v, want %q", tt.document, got, err, tt.want)
			}
		})
	}
}

func TestPublishKeepsAFileThatItCannotMend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.md")
	const broken = "<!-- gateway:begin -->\nold\n"
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Run{Stdout: t.Output(), markdown: path}
	if err := r.Publish(t.Context(), "Gateway", "gateway", "new\n"); err == nil {
		t.Error("Publish to a file without an end marker gave no error")
	}
	if got, _ := os.ReadFile(path); string(got) != broken {
		t.Errorf("the file is %q, want %q", got, broken)
	}
}
