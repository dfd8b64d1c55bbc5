package run

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	const whole = "<!-- gateway:begin -->\nnew\n<!-- gateway:end -->"
	tests := []struct {
		name, document, want string
		fails                bool
	}{
		{name: "no file", want: "## Gateway\n\n" + whole + "\n"},
		{name: "no section", document: "# B\n\n## Timers\n", want: "# B\n\n## Timers\n\n## Gateway\n\n" + whole + "\n"},
		{name: "another section", document: "<!-- x:begin -->\n<!-- x:end -->\n", want: "<!-- x:begin -->\n<!-- x:end -->\n\n## Gateway\n\n" + whole + "\n"},
		{name: "old section", document: "a\n<!-- gateway:begin -->\nold\n<!-- gateway:end -->\nb\n", want: "a\n" + whole + "\nb\n"},
		{name: "no end", document: "a\n<!-- gateway:begin -->\nold\n", fails: true},
		{name: "no begin", document: "a\n<!-- gateway:end -->\n", fails: true},
	}
	s := section{title: "## Gateway", name: "gateway"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.replace(tt.document, "new\n")
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("Replace(%q) = %q, %v, want %q", tt.document, got, err, tt.want)
			}
		})
	}
}

func TestWriteKeepsAFileThatItCannotMend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.md")
	const broken = "<!-- gateway:begin -->\nold\n"
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	s := section{title: "## Gateway", name: "gateway"}
	if err := s.write(path, "new\n"); err == nil {
		t.Error("Write to a file without an end marker gave no error")
	}
	if got, _ := os.ReadFile(path); string(got) != broken {
		t.Errorf("the file is %q, want %q", got, broken)
	}
}
