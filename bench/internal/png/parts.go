package png

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/holter-iot/holter/loadgen/report"
)

// Colours, in red, green and blue.
const (
	ink      = 0x1b1f24
	quiet    = 0x5b6570
	bandTone = 0xe9f1f4
	gridTone = 0xdfe3e8
	barTone  = 0x0b6e8f
)

func rgb(c uint32) color.RGBA {
	return color.RGBA{R: uint8(c >> 16), G: uint8(c >> 8), B: uint8(c), A: 0xff}
}

// lineStyle has the colour that the page uses for the same line.
func lineStyle(i int, dashed bool) draw.LineStyle {
	colors := [...]uint32{0x0b6e8f, 0xc2570c, 0x6d4aa3, 0x2f7d32, 0xb3261e, 0x6b7280}
	style := draw.LineStyle{Color: rgb(colors[i%len(colors)]), Width: vg.Points(1.5)}
	if dashed {
		style.Dashes = []vg.Length{vg.Points(5), vg.Points(4)}
	}
	return style
}

// bands shades every second phase, and writes the names of all that have room for it.
type bands struct {
	spans []report.Span
	style text.Style
}

// Plot implements plot.Plotter.
func (b *bands) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	style := b.style
	style.Color, style.XAlign, style.YAlign = rgb(quiet), text.XLeft, text.YTop
	for i, s := range b.spans {
		from, to := toX(s.From.Seconds()), toX(s.To.Seconds())
		if i%2 == 0 {
			c.FillPolygon(rgb(bandTone), []vg.Point{{X: from, Y: c.Min.Y}, {X: to, Y: c.Min.Y}, {X: to, Y: c.Max.Y}, {X: from, Y: c.Max.Y}})
		}
		if style.Width(s.Name) < to-from-6 {
			c.FillText(style, vg.Point{X: from + 4, Y: c.Max.Y - 2}, s.Name)
		}
	}
}

// drawLegend writes the names of curves with their lines into the upper right corner.
func drawLegend(page draw.Canvas, style text.Style, series []report.Curve) {
	const swatch, space, line = 18, 12, 14
	style.XAlign, style.YAlign = text.XLeft, text.YTop
	x := page.Max.X
	for i, s := range slices.Backward(series) {
		x -= style.Width(s.Name)
		page.FillText(style, vg.Point{X: x, Y: page.Max.Y}, s.Name)
		x -= swatch + 4
		page.StrokeLine2(lineStyle(i, s.Dashed), x, page.Max.Y-line/2, x+swatch, page.Max.Y-line/2)
		x -= space
	}
}

func grid() *plotter.Grid {
	style := draw.LineStyle{Color: rgb(gridTone), Width: vg.Points(0.5)}
	return &plotter.Grid{Vertical: style, Horizontal: style}
}

// clockTicks are round times.
type clockTicks struct{}

// Ticks implements plot.Ticker.
func (clockTicks) Ticks(_, top float64) []plot.Tick {
	steps := []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400}
	step := steps[len(steps)-1] * max(math.Ceil(top/steps[len(steps)-1]/12), 1)
	for _, s := range steps {
		if top/s <= 12 {
			step = s
			break
		}
	}
	var ticks []plot.Tick
	for at := 0.0; at <= top; at += step {
		seconds := int(at)
		label := fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
		if seconds >= 3600 {
			label = fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
		}
		ticks = append(ticks, plot.Tick{Value: at, Label: label})
	}
	return ticks
}

// valueTicks are those of package plot with labels that have a unit.
type valueTicks struct {
	unit string
	log  bool
}

// Ticks implements plot.Ticker.
func (v valueTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	if v.log {
		ticks = plot.LogTicks{Prec: -1}.Ticks(low, high)
	} else {
		ticks = plot.DefaultTicks{}.Ticks(low, high)
	}
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = label(v.unit, ticks[i].Value)
		}
	}
	return ticks
}

// label writes a value as short as it can be.
func label(unit string, x float64) string {
	digits := func(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
	switch unit {
	case report.UnitMillis:
		switch {
		case x < 0.9995:
			return digits(x*1000) + " µs"
		case x < 999.5:
			return digits(x) + " ms"
		default:
			return digits(x/1000) + " s"
		}
	case report.UnitMebibyte:
		return digits(x) + " MiB"
	case report.UnitCores:
		return digits(x)
	}
	per := ""
	if unit == report.UnitRate {
		per = "/s"
	}
	switch {
	case x >= 1e6:
		return digits(x/1e6) + "M" + per
	case x >= 1e4:
		return digits(x/1e3) + "k" + per
	default:
		return digits(x) + per
	}
}

// histogram draws a distribution as columns.
func histogram(title string, d *report.Distribution) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	var names []string
	for _, b := range d.Buckets {
		names = append(names, "< "+label(report.UnitMillis, float64(b.To)/float64(time.Millisecond)))
	}
	p.NominalX(names...)
	p.X.LineStyle.Width, p.X.Tick.Length = 0, 0
	style := draw.LineStyle{Color: rgb(gridTone), Width: vg.Points(0.5)}
	columns := &columns{buckets: d.Buckets}
	p.Add(&plotter.Grid{Horizontal: style}, columns)
	_, p.X.Max, _, p.Y.Max = columns.DataRange()
	p.X.Min, p.Y.Min = -0.6, 0
	p.Y.Tick.Marker = valueTicks{unit: report.UnitCount}
	dress(p)
	columns.style = p.X.Tick.Label
	return p
}

// columns draws a column for each bucket with its count above it.
type columns struct {
	buckets []report.Bucket
	style   text.Style
}

// Plot implements plot.Plotter.
func (b *columns) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	style := b.style
	style.XAlign, style.YAlign = text.XCenter, text.YBottom
	for i, bucket := range b.buckets {
		left, right := toX(float64(i)-0.4), toX(float64(i)+0.4)
		low, high := toY(0), toY(float64(bucket.Count))
		c.FillPolygon(rgb(barTone), []vg.Point{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
		c.FillText(style, vg.Point{X: (left + right) / 2, Y: high + 2}, grouped(bucket.Count))
	}
}

// DataRange implements plot.DataRanger. It leaves room for the counts.
func (b *columns) DataRange() (xmin, xmax, ymin, ymax float64) {
	top := 1.0
	for _, bucket := range b.buckets {
		top = math.Max(top, float64(bucket.Count))
	}
	return -0.6, float64(len(b.buckets)) - 0.4, 0, top * 1.1
}

// grouped writes 12345 as 12,345.
func grouped(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
