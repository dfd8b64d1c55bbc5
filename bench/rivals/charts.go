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

// picture is a chart of one or two metrics.
type picture struct {
	file, title, unit string
	metrics           []metric
	legends           []string
}

func (b *bench) pictures() []picture {
	timers := figures.Grouped(b.n) + " timers"
	return []picture{
		{"heartbeat.svg", "A heartbeat, one of " + timers, "ns", []metric{"touch_ns"}, nil},
		{"arm-cancel.svg", "To arm and to cancel, " + timers, "ns", []metric{"arm_ns", "cancel_ns"}, []string{"arm", "cancel"}},
		{
			"memory.svg", "Memory of a timer", "live bytes",
			[]metric{"grown_before", "grown_after"},
			[]string{figures.Grouped(b.growth) + " timers, armed", fmt.Sprintf("after %d heartbeats each", heartbeats)},
		},
		{"due.svg", timers + " due at one instant", "ms until the last callback has run", []metric{"instant_last"}, nil},
	}
}

// draw draws the charts whose metrics were measured.
func (b *bench) draw(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of charts: %w", err)
	}
	var errs []error
	for _, p := range b.pictures() {
		if c := b.chart(p); len(c.Rows) > 0 {
			errs = append(errs, os.WriteFile(filepath.Join(dir, p.file), c.SVG(), 0o644))
		}
	}
	return errors.Join(errs...)
}

// chart returns a chart with the rows that were measured.
func (b *bench) chart(p picture) chart.Chart {
	c := chart.Chart{Title: p.title, Axis: p.unit + ", less is better (logarithmic); * a stand-in of ours", Legends: p.legends}
	for _, rival := range contenders() {
		if math.IsNaN(b.median(p.metrics[0], rival.name)) {
			continue
		}
		row := chart.Row{Name: strings.Replace(rival.name, " (stand-in)", "*", 1), Color: "#8a939b"}
		switch {
		case rival.module == holterModule:
			row.Color = "#0b6e8f"
		case rival.name == baselineName:
			row.Color = "#c9a227"
		}
		if b.isEarly(p.metrics[0], rival.name) {
			row.Remark = ", fires early"
		}
		for _, m := range p.metrics {
			row.Series = append(row.Series, figures.Each(b.results[rival.name], m.of))
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}
