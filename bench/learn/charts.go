package learn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holter-iot/holter/bench/internal/chart"
	"github.com/holter-iot/holter/bench/internal/figures"
)

// draw draws the charts, if all streams were simulated.
func (b *bench) draw(dir string) error {
	for _, s := range streams() {
		if len(b.results[s.name]) == 0 {
			return nil
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of charts: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "learned-alarms.svg"), b.chart("False alarms of 1,000 devices in a month", "by stream; less is better, logarithmic",
			func(q quality) float64 { return 1000 * q.mistakes }).SVG(), 0o644),
		os.WriteFile(filepath.Join(dir, "learned-detection.svg"), b.chart("Seconds from a death to the deadline, mean", "by stream; less is better, logarithmic",
			func(q quality) float64 { return q.detect }).SVG(), 0o644),
	)
}

// chart returns a chart with a bar for each contender in each stream.
func (b *bench) chart(title, axis string, of func(quality) float64) chart.Chart {
	c := chart.Chart{Title: title, Axis: axis}
	for _, s := range streams() {
		rows := b.rows(s.name)
		for _, name := range b.names() {
			row := chart.Row{Name: s.name + ", " + name, Color: "#8a939b", Series: [][]float64{figures.Each(rows[name], func(r row) float64 { return of(r.quality) })}}
			switch {
			case name == ourName(1):
				row.Color = "#0b6e8f"
			case strings.HasPrefix(name, "Holter"):
				continue // the chart has one budget
			}
			c.Rows = append(c.Rows, row)
		}
	}
	return c
}
