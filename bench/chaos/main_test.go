package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-faults", "kill, db stop", "-seed", "9", "-database", "postgres", "-ttl", "3s,9s"}, os.Stderr)
	if err != nil || o.Seed != 9 || o.Database != Postgres || len(o.Faults) != 2 || o.Faults[1] != Freeze || len(o.Rules.TTLs) != 2 {
		t.Errorf("parse = %+v, %v", o, err)
	}
	for _, args := range [][]string{{"x"}, {"-ttl", "x"}} {
		if _, err := parse(args, os.Stderr); err == nil {
			t.Errorf("parse(%q) takes it", args)
		}
	}
}

func TestFinish(t *testing.T) {
	file := filepath.Join(t.TempDir(), "reliability.md")
	var out strings.Builder
	good := &Report{Database: "sqlite"}
	if err := finish(good, &options{markdown: file}, []string{"-seed", "1"}, &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "| missed offline | 0 |") || !strings.Contains(string(text), "go run ./chaos -seed 1") {
		t.Errorf("the section is %s, %v", text, err)
	}
	bad := &Report{Violations: []Violation{{Kind: LostEvent, Subject: "dev-1", Offset: 7, Detail: "gone"}}}
	o := options{json: true}
	out.Reset()
	if err := finish(bad, &o, nil, &out); !errors.Is(err, errViolated) || !o.keep || !strings.Contains(out.String(), `"detail": "gone"`) {
		t.Errorf("finish = %v, keep %v, %s", err, o.keep, out.String())
	}
}
