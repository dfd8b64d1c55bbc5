package rivals

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holter-iot/holter/bench/internal/chart"
	"github.com/holter-iot/holter/bench/internal/figures"
)

// picture is a chart of one or two metrics.
type picture struct {
	file, title, axis string
	metrics           []metric
	legends           []string
	rows              []string // rows that are no contender
	early             metric   // a rival that has any of it is marked
}

func pictures(s sizes) []picture {
	timers := figures.Grouped(s.n) + " timers"
	return []picture{
		{
			file: "heartbeat.svg", title: "A heartbeat, one of " + timers, axis: "ns, less is better (logarithmic)",
			metrics: []metric{touchNanos}, rows: []string{baselineName},
		},
		{
			file: "arm-cancel.svg", title: "To arm and to cancel, " + timers, axis: "ns, less is better (logarithmic)",
			metrics: []metric{armNanos, cancelNanos}, legends: []string{"arm", "cancel"},
		},
		{
			file: "memory.svg", title: "Memory of a timer", axis: "live bytes, less is better (logarithmic)",
			metrics: []metric{grownBefore, grownAfter},
			legends: []string{figures.Grouped(s.growth) + " timers, armed", fmt.Sprintf("after %d heartbeats each", heartbeats)},
		},
		{
			file: "due.svg", title: timers + " due at one instant", axis: "ms until the last callback has run, less is better (logarithmic)",
			metrics: []metric{instantLast}, early: instantEarly,
		},
	}
}

// draw draws the charts whose metrics were measured.
func (b *bench) draw(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of charts: %w", err)
	}
	var errs []error
	for _, p := range pictures(b.sizes) {
		if c := b.chart(p); len(c.Rows) > 0 {
			errs = append(errs, os.WriteFile(filepath.Join(dir, p.file), c.SVG(), 0o644))
		}
	}
	return errors.Join(errs...)
}

// chart returns a chart with the rows that were measured.
func (b *bench) chart(p picture) chart.Chart {
	c := chart.Chart{Title: p.title, Axis: p.axis, Legends: p.legends}
	var names []string
	for _, contender := range contenders() {
		names = append(names, contender.name)
	}
	for _, name := range slices.Concat(names, p.rows) {
		row := chart.Row{Name: name, Color: "#8a939b"}
		if short, ok := strings.CutSuffix(name, " (stand-in)"); ok {
			row.Name = short + "*"
			c.Axis = p.axis + "; * a stand-in of ours"
		}
		switch {
		case strings.HasPrefix(name, holterName):
			row.Color = "#0b6e8f"
		case name == baselineName:
			row.Color = "#c9a227"
		}
		for _, m := range p.metrics {
			row.Series = append(row.Series, b.get(m, name))
		}
		if b.isEarly(p.early, name) {
			row.Remark = ", fires early"
		}
		if !math.IsNaN(b.median(p.metrics[0], name)) {
			c.Rows = append(c.Rows, row)
		}
	}
	return c
}
