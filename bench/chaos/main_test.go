package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/fleet/chaos"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-faults", "kill, db stop", "-seed", "9", "-database", "postgres", "-ttl", "3s,9s"}, os.Stderr)
	if err != nil || o.chaos.Seed != 9 || o.chaos.Database != chaos.Postgres || len(o.chaos.Faults) != 2 || o.chaos.Faults[1] != chaos.Freeze || len(o.chaos.Rules.TTLs) != 2 {
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
