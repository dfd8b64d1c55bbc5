// Package png draws the charts of a load generator's report as pictures.
package png

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/holter-iot/holter/loadgen/report"
)

// Size of a picture, which has 120 dots per inch: 1134 times 520.
const (
	width  = 24 * vg.Centimeter
	height = 11 * vg.Centimeter
	dots   = 120
)

// shownSamples is how many points a line has at most.
const shownSamples = 1000

// WriteFiles draws each chart of a run and its histograms of latencies into a directory, which it makes, and returns the paths. What is
// there already is replaced. A picture that cannot be written does not keep the others from being written.
func WriteFiles(dir string, f *report.Final) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("png: make the directory %s: %w", dir, err)
	}
	var paths []string
	var errs []error
	write := func(name string, p *plot.Plot, legend []report.Curve, caption string) {
		path := filepath.Join(dir, name+".png")
		if err := save(p, legend, caption, path); err != nil {
			errs = append(errs, fmt.Errorf("png: write %s: %w", path, err))
			return
		}
		paths = append(paths, path)
	}
	samples := report.Thin(f.Samples, shownSamples)
	times, spans := report.Times(samples), report.Spans(f.Samples)
	for _, c := range report.Charts(samples) {
		p, err := overTime(&c, times, spans)
		if err != nil {
			errs = append(errs, fmt.Errorf("png: draw %s: %w", c.ID, err))
			continue
		}
		write(c.ID, p, c.Series, "time since the run began")
	}
	if v := f.Verdicts; v != nil && len(v.Detection.Buckets) > 0 {
		write("detection", histogram("Verdict after its deadline", &v.Detection), nil, "longer than the one before, less than this")
	}
	if len(f.RTT.Buckets) > 0 {
		write("rtt-histogram", histogram("Heartbeat to answer", &f.RTT), nil, "longer than the one before, less than this")
	}
	return paths, errors.Join(errs...)
}

// overTime draws a chart with the phases as bands.
func overTime(c *report.Chart, times report.Values, spans []report.Span) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = c.Title
	b := &bands{spans: spans}
	p.Add(b, grid())
	top, bottom := 0.0, math.Inf(1)
	for i, s := range c.Series {
		style := lineStyle(i, s.Dashed)
		for _, part := range parts(times, s.Values) {
			line, err := plotter.NewLine(part)
			if err != nil {
				return nil, err
			}
			line.LineStyle = style
			p.Add(line)
			for _, xy := range part {
				top, bottom = max(top, xy.Y), min(bottom, xy.Y)
			}
		}
	}
	p.X.Min, p.X.Max = 0, times[len(times)-1]
	p.X.Tick.Marker = clockTicks{}
	if c.Log {
		p.Y.Scale = plot.LogScale{}
		p.Y.Min, p.Y.Max = decades(bottom, top)
	} else {
		p.Y.Min, p.Y.Max = 0, top*1.15
	}
	p.Y.Tick.Marker = valueTicks{unit: c.Unit, log: c.Log}
	dress(p)
	b.style = p.X.Tick.Label
	return p, nil
}

// decades returns the powers of ten around values.
func decades(bottom, top float64) (low, high float64) {
	low, high = math.Pow(10, math.Floor(math.Log10(bottom))), math.Pow(10, math.Ceil(math.Log10(top)))
	if low == high {
		high *= 10
	}
	return low, high
}

// parts returns the pieces of a curve between its gaps.
func parts(times, values report.Values) []plotter.XYs {
	var all []plotter.XYs
	gap := true
	for i, y := range values {
		if math.IsNaN(y) {
			gap = true
			continue
		}
		if gap {
			all = append(all, nil)
			gap = false
		}
		last := &all[len(all)-1]
		*last = append(*last, plotter.XY{X: times[i], Y: y})
	}
	return all
}

// save draws a plot with a margin and a caption below it. Title and legend share the line above it.
func save(p *plot.Plot, legend []report.Curve, caption, path string) error {
	const margin, line = 4 * vg.Millimeter, 6 * vg.Millimeter
	title := p.Title.Text
	p.Title.Text = ""
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dots), vgimg.UseBackgroundColor(color.White))
	page := draw.Crop(draw.New(canvas), margin, -margin, margin, -margin)
	p.Draw(draw.Crop(page, 0, 0, line, -1.5*line))
	head := p.Title.TextStyle
	head.XAlign, head.YAlign = text.XLeft, text.YTop
	page.FillText(head, vg.Point{X: page.Min.X, Y: page.Max.Y}, title)
	style := p.Legend.TextStyle
	style.XAlign = text.XCenter
	page.FillText(style, vg.Point{X: page.Center().X, Y: page.Min.Y}, caption)
	drawLegend(page, p.Legend.TextStyle, legend)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(f)
	return errors.Join(err, f.Close())
}

// dress gives all text one font.
func dress(p *plot.Plot) {
	sans := func(s *text.Style, size vg.Length) {
		s.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
		s.Color = rgb(ink)
	}
	sans(&p.Title.TextStyle, 15)
	sans(&p.X.Tick.Label, 10)
	sans(&p.Y.Tick.Label, 10)
	sans(&p.Legend.TextStyle, 11)
	p.BackgroundColor = color.White
}
