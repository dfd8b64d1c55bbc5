package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// The marks between which the table stands in its file.
const (
	begin = "<!-- make soak -->\n"
	end   = "<!-- /make soak -->\n"
	head  = "| test | seconds | result | commit |\n|---|---:|---|---|\n"
)

// writeTable writes the tests that ran into the table of a Markdown file. What ran another time keeps its row.
func (r *report) writeTable(ctx context.Context, name string) error {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("find the commit: %w", err)
	}
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	page, err := r.updateTable(string(old), strings.TrimSpace(string(commit)))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(page), 0o644) //nolint:gosec // documentation is for everybody to read
}

func (r *report) updateTable(page, commit string) (string, error) {
	before, rest, found := strings.Cut(page, begin)
	table, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("no lines %sand %sto write the table between", begin, end)
	}
	rows := make(map[string]string)
	for line := range strings.Lines(strings.TrimPrefix(table, head)) {
		test, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		rows[test] = line
	}
	for _, t := range r.results {
		if t.action != "skip" && t.seconds > 0 { // the seeds of a fuzz target take no time: its row is that of the fuzzing
			test := t.pkg + " " + t.test
			rows[test] = fmt.Sprintf("| %s | %.1f | %s | %s |\n", test, t.seconds, t.action, commit)
		}
	}
	var b strings.Builder
	for _, test := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[test])
	}
	return before + begin + head + b.String() + end + after, nil
}
