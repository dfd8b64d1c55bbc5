//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is the attacker, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == playCommand {
		if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestAttacks plays some attacks for a moment.
func TestAttacks(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	only := "tls-refused|^loris|garbage|flood|tokens|^proxy"
	if _, err := exec.LookPath("haproxy"); err == nil {
		only += "|haproxy"
	}
	file := filepath.Join(t.TempDir(), "reliability.md")
	var out, log strings.Builder
	err := run(t.Context(), []string{"-seconds", "1", "-devices", "100", "-scale", "0.02", "-only", only, "-md", file}, &out, &log)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, log.String(), out.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| flood: ", "refused_full ", "unauthorized ", "none cut off, server alive: met"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-seconds", "3", "-only", "tls"}, os.Stderr)
	if err != nil || !o.only.MatchString("tls-served") || o.only.MatchString("flood") || o.scaled(10) != 10 {
		t.Errorf("parse = %+v, %v", o, err)
	}
	for _, args := range [][]string{{"x"}, {"-seconds", "0"}, {"-scale", "2"}, {"-only", "("}} {
		var said strings.Builder
		if _, err := parse(args, &said); err == nil {
			t.Errorf("parse(%q) gave no error", args)
		}
	}
}

func TestGood(t *testing.T) {
	r := result{alive: true, answered: true}
	if !r.good() {
		t.Error("nothing happened, and it is not good")
	}
	r.offline = 1
	if r.good() {
		t.Error("a false verdict is good")
	}
}
