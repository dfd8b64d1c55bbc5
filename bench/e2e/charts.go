package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// chart is a picture of a run, drawn by package png.
type chart struct{ scenario, name, title string }

// shown are the charts of a section.
func shown() []chart {
	return []chart{
		{"silent-10pct", "verdicts", "A tenth falls silent: verdicts"},
		{"silent-10pct", "detection", "A tenth falls silent: verdicts after their deadlines"},
		{"reconnect-storm", "connections", "Reconnect storm: connections"},
		{"reconnect-storm", "rtt", "Reconnect storm: round trips of heartbeats"},
	}
}

// charts copies the charts of scenarios that were played to where they are wanted, and returns Markdown that shows them. What had nothing to
// show, and so was not drawn, is left out.
func (b *bench) charts(results []*result) (string, error) {
	if b.pictures == "" {
		return "", nil
	}
	if err := os.MkdirAll(b.pictures, 0o750); err != nil {
		return "", err
	}
	from, err := filepath.Rel(filepath.Dir(b.markdown), b.pictures)
	if err != nil {
		return "", fmt.Errorf("-png: it must be reachable from -md: %w", err)
	}
	var w strings.Builder
	for _, c := range shown() {
		for _, r := range results {
			if r.name != c.scenario {
				continue
			}
			picture, err := os.ReadFile(filepath.Join(b.out, r.name, c.name+".png"))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			name := "e2e-" + r.name + "-" + c.name + ".png"
			if err == nil {
				err = os.WriteFile(filepath.Join(b.pictures, name), picture, 0o644)
			}
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&w, "![%s](%s)\n", c.title, filepath.ToSlash(filepath.Join(from, name)))
		}
	}
	if w.Len() == 0 {
		return "", nil
	}
	return "\n" + w.String(), nil
}
