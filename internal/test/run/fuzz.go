package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// target is a fuzz target.
type target struct{ pkg, name string }

// testFiles is every test file that this platform builds, as "package file".
const testFiles = `{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}`

// fuzzTargets returns the fuzz targets of a module whose names match.
func fuzzTargets(ctx context.Context, folder string, only *regexp.Regexp) ([]target, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", testFiles, "./...")
	cmd.Dir = folder
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the test files of %s: %w", folder, err)
	}
	head := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	var targets []target
	for line := range strings.Lines(string(list)) {
		pkg, file, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found {
			continue
		}
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, err
		}
		for _, match := range head.FindAllSubmatch(text, -1) {
			if name := string(match[1]); only.MatchString(name) {
				targets = append(targets, target{pkg, name})
			}
		}
	}
	return targets, nil
}

// fuzz runs each fuzz target of a module that matches for a while.
func (c config) fuzz(ctx context.Context, folder string, r *report) error {
	only, err := regexp.Compile(c.only)
	if err != nil {
		return err
	}
	targets, err := fuzzTargets(ctx, folder, only)
	if err != nil {
		return err
	}
	for _, t := range targets {
		begun := time.Now()
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", c.fuzzTime, "-fuzzminimizetime", "1x", t.pkg)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.Dir = folder
		said, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		action := "pass"
		if err != nil && !timeIsUp(said) {
			action = "fail"
		}
		r.testEnded(event{Action: action, Package: t.pkg, Test: t.name, Elapsed: time.Since(begun).Seconds()}, string(said))
		if action == "pass" {
			r.print("ok   %6.1f s %s %s\n", time.Since(begun).Seconds(), short(t.pkg), t.name)
		}
	}
	return nil
}

// timeIsUp reports whether the fuzzing engine took its own time limit for a failure although it found nothing, as it may before Go 1.27
// (go.dev/issue/75804).
func timeIsUp(said []byte) bool {
	return regexp.MustCompile(`(?m)^    context deadline exceeded$`).Match(said) &&
		!bytes.Contains(said, []byte("Failing input")) && !bytes.Contains(said, []byte("seed corpus"))
}
