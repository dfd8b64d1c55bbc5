package rivals

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/holter-iot/holter/bench/internal/chart"
	"github.com/holter-iot/holter/bench/internal/figures"
)

// draw draws the charts of the tables, as far as they were measured.
func (b *bench) draw(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of charts: %w", err)
	}
	var errs []error
	for _, t := range b.tables() {
		if t.chart == "" {
			continue
		}
		if c := b.chart(t); len(c.Rows) > 0 {
			errs = append(errs, os.WriteFile(filepath.Join(dir, t.chart), c.SVG(), 0o644))
		}
	}
	return errors.Join(errs...)
}

// chart returns a chart of those columns of a table that have a best.
func (b *bench) chart(t table) chart.Chart {
	bars := t.compared()
	c := chart.Chart{Title: t.title, Axis: "less is better, logarithmic; * a stand-in of ours"}
	for _, bar := range bars {
		c.Legends = append(c.Legends, bar.Title)
	}
	for _, rival := range contenders() {
		row := chart.Row{Name: strings.Replace(rival.name, " (stand-in)", "*", 1), Color: "#8a939b"}
		switch {
		case rival.module == holterModule:
			row.Color = "#0b6e8f"
		case rival.name == baselineName:
			row.Color = "#c9a227"
		case !bars[0].Best(rival.name):
			row.Remark = ", fires early"
		}
		for _, bar := range bars {
			row.Series = append(row.Series, bar.Figures(b.results, rival.name))
		}
		if !math.IsNaN(figures.Median(row.Series[0])) {
			c.Rows = append(c.Rows, row)
		}
	}
	return c
}
