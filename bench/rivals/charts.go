package rivals

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// chart is a picture of one or two metrics: horizontal bars, as long as the medians, with the spread as a line.
type chart struct {
	file, title, axis string
	bars              []bar
	rows              []string // rows that are no contender
	early             metric   // a rival that has any of it is marked
}

// bar is what one colour shows.
type bar struct {
	metric metric
	legend string
}

func charts(s sizes) []chart {
	timers := figures.Grouped(s.n) + " timers"
	return []chart{
		{
			file: "heartbeat.png", title: "A heartbeat, one of " + timers, axis: "ns, less is better (logarithmic)",
			bars: []bar{{metric: touchNanos}}, rows: []string{baselineName},
		},
		{
			file: "arm-cancel.png", title: "To arm and to cancel, " + timers, axis: "ns, less is better (logarithmic)",
			bars: []bar{{armNanos, "arm"}, {cancelNanos, "cancel"}},
		},
		{
			file: "memory.png", title: "Memory of a timer", axis: "live bytes, less is better (logarithmic)",
			bars: []bar{
				{grownBefore, fmt.Sprintf("%s timers, armed", figures.Grouped(s.growth))},
				{grownAfter, fmt.Sprintf("after %d heartbeats each", heartbeats)},
			},
		},
		{
			file: "due.png", title: timers + " due at one instant", axis: "ms until the last callback has run, less is better (logarithmic)",
			bars: []bar{{metric: instantLast}}, early: instantEarly,
		},
	}
}

// writeCharts draws the charts whose metrics were measured.
func (b *bench) writeCharts(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of charts: %w", err)
	}
	var errs []error
	for _, c := range charts(b.sizes) {
		if err := b.writeChart(c, filepath.Join(dir, c.file)); err != nil {
			errs = append(errs, fmt.Errorf("draw %s: %w", c.file, err))
		}
	}
	return errors.Join(errs...)
}

func (b *bench) writeChart(c chart, path string) error {
	rows := b.rows(c)
	if len(rows) == 0 {
		return nil
	}
	p := plot.New()
	p.Title.Text = c.title
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = plot.LogTicks{Prec: -1}
	p.Add(&bars{rows: rows, perRow: len(c.bars)})
	names := make([]string, len(rows))
	for i, row := range rows {
		names[len(rows)-1-i] = row.name
	}
	p.NominalY(names...)
	p.Y.LineStyle.Width, p.Y.Tick.Length = 0, 0
	for i, bar := range c.bars {
		if bar.legend != "" {
			p.Legend.Add(bar.legend, swatch{shade(rgb(otherColor), i)})
		}
	}
	dress(p)
	height := vg.Length(len(rows)*(9+9*len(c.bars))+90) * vg.Millimeter / 2.4
	return save(p, c.axis+note(rows), height, path)
}

// note explains the asterisks.
func note(rows []barRow) string {
	for _, row := range rows {
		if strings.HasSuffix(row.name, "*") {
			return "        * a stand-in of ours"
		}
	}
	return ""
}

// save draws a plot with a margin, and a caption below it. (The label of the axis would be given room as if the scale were linear.)
func save(p *plot.Plot, caption string, height vg.Length, path string) error {
	const margin, line = 4 * vg.Millimeter, 6 * vg.Millimeter
	canvas := vgimg.NewWith(vgimg.UseWH(24*vg.Centimeter, height), vgimg.UseDPI(120), vgimg.UseBackgroundColor(color.White))
	page := draw.Crop(draw.New(canvas), margin, -margin, margin, -margin)
	p.Draw(draw.Crop(page, 0, 0, line, 0))
	style := p.Legend.TextStyle
	style.XAlign = text.XCenter
	page.FillText(style, vg.Point{X: page.Center().X, Y: page.Min.Y}, caption)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(f); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// rows returns what a chart shows, from top to bottom.
func (b *bench) rows(c chart) []barRow {
	var names []string
	for _, x := range contenders() {
		names = append(names, x.name)
	}
	var rows []barRow
	for _, name := range append(names, c.rows...) {
		row := barRow{name: strings.ReplaceAll(name, " (stand-in)", "*"), color: rgb(otherColor)}
		switch {
		case strings.HasPrefix(name, holterName):
			row.color = rgb(holterColor)
		case name == baselineName:
			row.color = rgb(baselineColor)
		}
		for _, bar := range c.bars {
			row.values = append(row.values, summarize(b.get(bar.metric, name)))
		}
		if b.isEarly(c.early, name) {
			row.remark = ", fires early"
		}
		if !math.IsNaN(row.values[0].median) {
			rows = append(rows, row)
		}
	}
	return rows
}

// Colours, in red, green and blue.
const (
	holterColor   = 0x0b6e8f
	otherColor    = 0x8a939b
	baselineColor = 0xc9a227
	inkColor      = 0x222222
)

func rgb(c uint32) color.RGBA {
	return color.RGBA{R: uint8(c >> 16), G: uint8(c >> 8), B: uint8(c), A: 0xff}
}

// shade returns a lighter colour for the second bar of a row.
func shade(c color.RGBA, i int) color.Color {
	if i == 0 {
		return c
	}
	lighter := func(x uint8) uint8 { return uint8(255 - (255-int(x))*45/100) }
	return color.RGBA{R: lighter(c.R), G: lighter(c.G), B: lighter(c.B), A: 0xff}
}

// dress gives all text one font.
func dress(p *plot.Plot) {
	sans := func(s *text.Style, size vg.Length) {
		s.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
		s.Color = rgb(inkColor)
	}
	sans(&p.Title.TextStyle, 15)
	p.Title.Padding = 10
	sans(&p.X.Tick.Label, 10)
	sans(&p.Y.Tick.Label, 11)
	sans(&p.Legend.TextStyle, 11)
	p.Legend.Top = true
	p.Legend.Padding = 3
	p.BackgroundColor = color.White
}

// summary is the median of some figures and their ends. The median is NaN if there are none.
type summary struct{ median, min, max float64 }

func summarize(all []float64) summary {
	all = slices.DeleteFunc(all, math.IsNaN)
	if len(all) == 0 {
		return summary{median: math.NaN()}
	}
	return summary{figures.Median(all), slices.Min(all), slices.Max(all)}
}

type barRow struct {
	name   string
	color  color.RGBA
	values []summary
	remark string
}

// bars draws rows of bars that begin at the left edge, as a logarithmic axis has no zero.
type bars struct {
	rows   []barRow
	perRow int
}

// least is where the axis begins at the latest, and what a value that is not positive is drawn as.
const least = 1

// Plot implements plot.Plotter.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	style := p.X.Tick.Label
	style.XAlign, style.YAlign = text.XLeft, text.YCenter
	style.Font.Size = 10
	spread := draw.LineStyle{Color: rgb(inkColor), Width: 0.8}
	for k, row := range b.rows {
		for i, s := range row.values {
			if math.IsNaN(s.median) {
				continue
			}
			half := 0.38 / float64(b.perRow)
			middle := float64(len(b.rows)-1-k) + 0.38 - half*float64(2*i+1)
			from, to := toX(p.X.Min), toX(max(s.median, p.X.Min))
			low, high := toY(middle-half*0.92), toY(middle+half*0.92)
			c.FillPolygon(shade(row.color, i), []vg.Point{{X: from, Y: low}, {X: to, Y: low}, {X: to, Y: high}, {X: from, Y: high}})
			end := toX(max(s.max, p.X.Min))
			c.StrokeLine2(spread, toX(max(s.min, p.X.Min)), toY(middle), end, toY(middle))
			c.FillText(style, vg.Point{X: max(end, to) + 4, Y: toY(middle) + 1.5}, figures.Significant(s.median)+row.remark)
		}
	}
}

// DataRange implements plot.DataRanger. It leaves room for the figures.
func (b *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax = math.Inf(1), least
	for _, row := range b.rows {
		for _, s := range row.values {
			if !math.IsNaN(s.median) {
				xmin, xmax = min(xmin, max(s.min, least)), max(xmax, s.max)
			}
		}
	}
	xmin = math.Pow(10, math.Floor(math.Log10(xmin*0.8)))
	xmin = max(xmin, least)
	room := math.Pow(xmax/xmin, 0.16)
	return xmin, xmax * room, -0.6, float64(len(b.rows)) - 0.4
}

// swatch is a colour in a legend.
type swatch struct{ color color.Color }

// Thumbnail implements plot.Thumbnailer.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
}
