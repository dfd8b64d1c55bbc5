package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/habit"
	"github.com/holter-iot/holter/internal/replay"
)

// The size of a chart and of its margins, in units of the drawing.
const (
	width, height            = 720.0, 300.0
	left, right, top, bottom = 64.0, 28.0, 16.0, 40.0
)

// chart is a curve against the values.
type chart struct {
	Title, Text    string // Text says the same in words
	Line           string // the points of the curve
	Dots           []dot
	Marks          []dot // today and what was learned
	XTicks, YTicks []tick
	XLabel         string
}

type dot struct {
	X, Y         float64
	Label, Class string
	Left, Below  bool // of a mark: where its label stands
}

type tick struct {
	At   float64
	Text string
}

// scale places a value between two others, by its logarithm.
type scale struct{ least, most, from, to float64 }

func (s scale) at(v float64) float64 {
	v = min(max(v, s.least), s.most)
	return s.from + (s.to-s.from)*math.Log(v/s.least)/math.Log(s.most/s.least)
}

// curve is what a chart shows of a point.
type curve struct {
	title, text string
	value       func(*replay.Point) float64
	write       func(float64) string
}

// charts returns the charts of an answer; none if there is only one value.
func charts(a *replay.Answer) []chart {
	if len(a.Points) < 2 {
		return nil
	}
	perMonth := func(n int) float64 {
		if a.DeviceMonths == 0 {
			return 0
		}
		return float64(n) / a.DeviceMonths
	}
	first := curve{"False alarms per device and month", "false alarms per device and month", func(p *replay.Point) float64 { return p.Rate }, rate}
	switch a.Field {
	case replay.LateAfter:
		first.title, first.text, first.value = "Late per device and month", "times late per device and month", func(p *replay.Point) float64 { return perMonth(p.Lates) }
	case replay.CloseGrace:
		first.title, first.text = "Verdicts on ended connections per device and month", "verdicts on ended connections per device and month"
		first.value = func(p *replay.Point) float64 { return perMonth(p.Closed) }
	case replay.OutageShare:
		first = curve{"Outages of groups", "outages of groups", func(p *replay.Point) float64 { return float64(p.GroupOutages) }, rate}
	case replay.Timeout:
	}
	all := []chart{draw(a, first)}
	if a.Field == replay.Timeout || a.Field == replay.CloseGrace {
		seconds := func(v float64) string { return habit.Show(time.Duration(v * float64(time.Second))) }
		all = append(all, draw(a, curve{"Delay of the outages that are seen, on average", "average delay", func(p *replay.Point) float64 { return float64(p.Mean) / 1000 }, seconds}))
	}
	return all
}

// valueOf returns where a point lies on the horizontal axis.
func valueOf(p *replay.Point) float64 {
	if p.Share > 0 {
		return p.Share
	}
	return float64(p.Value) / 1000
}

func nameOf(v float64, f replay.Field) string {
	if f == replay.OutageShare {
		return strconv.FormatFloat(v*100, 'g', 3, 64) + " %"
	}
	return habit.Show(time.Duration(v * float64(time.Second)))
}

// draw draws a curve.
func draw(a *replay.Answer, c curve) chart {
	x := scale{valueOf(&a.Points[0]), valueOf(&a.Points[len(a.Points)-1]), left, width - right}
	y := vertical(a, c)
	out := chart{Title: c.title, XLabel: strings.ReplaceAll(string(a.Field), "_", " ")}
	place := func(p *replay.Point) (float64, float64) { return x.at(valueOf(p)), y.at(c.value(p)) }
	var line, text strings.Builder
	for i := range a.Points {
		p := &a.Points[i]
		px, py := place(p)
		fmt.Fprintf(&line, "%.1f,%.1f ", px, py)
		d := dot{X: px, Y: py, Label: nameOf(valueOf(p), a.Field) + ": " + c.write(c.value(p)), Class: "exact"}
		if p.Bound {
			d.Label, d.Class = nameOf(valueOf(p), a.Field)+": at least "+c.write(c.value(p)), "bound"
		}
		out.Dots = append(out.Dots, d)
		if i == 0 || i == len(a.Points)-1 {
			fmt.Fprintf(&text, "%s %s at %s; ", c.write(c.value(p)), c.text, nameOf(valueOf(p), a.Field))
		}
	}
	mark := func(p *replay.Point, name string) {
		px, py := place(p)
		near := slices.ContainsFunc(out.Marks, func(m dot) bool { return math.Abs(m.X-px) < 60 && math.Abs(m.Y-py) < 30 })
		out.Marks = append(out.Marks, dot{X: px, Y: py, Label: name, Class: name, Left: px > width-right-60, Below: near})
		fmt.Fprintf(&text, "%s %s: %s; ", name, nameOf(valueOf(p), a.Field), c.write(c.value(p)))
	}
	if a.Today.Value > 0 {
		mark(&a.Today, "today")
	}
	if a.Learned != nil {
		mark(a.Learned, "learned")
	}
	out.Line, out.Text = strings.TrimSpace(line.String()), strings.TrimSuffix(text.String(), "; ")
	out.XTicks, out.YTicks = ticks(x, 8, func(v float64) string { return nameOf(v, a.Field) }), ticks(y, 5, c.write)
	if slices.ContainsFunc(a.Points, func(p replay.Point) bool { return c.value(&p) == 0 }) {
		out.YTicks[0].Text = c.write(0)
	}
	return out
}

// vertical returns the scale of what a curve shows. What is 0 lies on the axis.
func vertical(a *replay.Answer, c curve) scale {
	least, most := math.Inf(1), 0.0
	for _, p := range append([]replay.Point{a.Today}, a.Points...) {
		if v := c.value(&p); v > 0 {
			least, most = min(least, v), max(most, v)
		}
	}
	if most == 0 {
		least, most = 0.1, 1
	}
	return scale{least / 2, most * 2, height - bottom, top}
}

// ticks returns about n places on a scale.
func ticks(s scale, n int, write func(float64) string) []tick {
	var all []tick
	for i := range n + 1 {
		v := s.least * math.Pow(s.most/s.least, float64(i)/float64(n))
		all = append(all, tick{s.at(v), write(v)})
	}
	return all
}
