package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/fleet/chaos"
)

func TestReplaceSection(t *testing.T) {
	const section = "<!-- chaos sqlite:begin -->\nnew\n<!-- chaos sqlite:end -->"
	tests := []struct {
		name, document, want string
		fails                bool
	}{
		{name: "no file", want: "## Chaos: sqlite\n\n" + section + "\n"},
		{name: "other sections", document: "# R\n\n<!-- chaos postgres:begin -->\n<!-- chaos postgres:end -->\n", want: "# R\n\n<!-- chaos postgres:begin -->\n<!-- chaos postgres:end -->\n\n## Chaos: sqlite\n\n" + section + "\n"},
		{name: "old section", document: "a\n<!-- chaos sqlite:begin -->\nold\n<!-- chaos sqlite:end -->\nb\n", want: "a\n" + section + "\nb\n"},
		{name: "no end", document: "a\n<!-- chaos sqlite:begin -->\nold\n", fails: true},
		{name: "no begin", document: "a\n<!-- chaos sqlite:end -->\n", fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := replaceSection(tt.document, "sqlite", "new\n")
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("replaceSection(%q) = %q, %v, want %q", tt.document, got, err, tt.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-faults", "kill, db stop", "-seed", "9", "-database", "postgres"}, os.Stderr)
	if err != nil || o.chaos.Seed != 9 || o.chaos.Database != chaos.Postgres || len(o.chaos.Faults) != 2 || o.chaos.Faults[1] != chaos.Freeze {
		t.Errorf("parse = %+v, %v", o, err)
	}
	if _, err := parse([]string{"x"}, os.Stderr); err == nil {
		t.Error("an argument that means nothing is taken")
	}
}

func TestFinish(t *testing.T) {
	file := filepath.Join(t.TempDir(), "reliability.md")
	var out strings.Builder
	good := &chaos.Report{Database: "sqlite"}
	if err := finish(good, &options{markdown: file}, []string{"-seed", "1"}, &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "| missed offline | 0 |") || !strings.Contains(string(text), "go run ./bench/chaos -seed 1") {
		t.Errorf("the section is %s, %v", text, err)
	}
	bad := &chaos.Report{Violations: []chaos.Violation{{Kind: chaos.LostEvent, Subject: "dev-1", Offset: 7, Detail: "gone"}}}
	o := options{json: true}
	out.Reset()
	if err := finish(bad, &o, nil, &out); !errors.Is(err, errViolated) || !o.keep || !strings.Contains(out.String(), `"detail": "gone"`) {
		t.Errorf("finish = %v, keep %v, %s", err, o.keep, out.String())
	}
}
