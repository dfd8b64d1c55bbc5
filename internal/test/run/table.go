package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// The marks between which the table stands in its file.
const (
	begin = "<!-- make soak -->"
	end   = "<!-- /make soak -->"
)

// writeTable writes what ran into a Markdown file, in the place of what a run before has written there.
func (r *report) writeTable(ctx context.Context, name string) error {
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=10").Output()
	if err != nil {
		return fmt.Errorf("find the commit: %w", err)
	}
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no lines %s and %s to write the table between", name, begin, end)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s, commit %s, %s. %d passed, %d failed, %d skipped.\n\n| test | seconds | result | commit |\n|---|---:|---|---|\n",
		begin, time.Now().Format(time.DateOnly), strings.TrimSpace(string(commit)), machine(), r.passed, r.failed, r.skipped)
	for _, t := range r.slowest() {
		if t.action != "skip" {
			fmt.Fprintf(&b, "| %s %s | %.1f | %s | %s |\n", t.pkg, t.test, t.seconds, t.action, strings.TrimSpace(string(commit)))
		}
	}
	return os.WriteFile(name, []byte(before+b.String()+end+after), 0o644) //nolint:gosec // documentation is for everybody to read
}
