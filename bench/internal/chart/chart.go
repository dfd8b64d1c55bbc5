// Package chart draws horizontal bars on a logarithmic scale, as SVG.
package chart

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// Chart is a picture of some rows. Less is better.
type Chart struct {
	Title   string
	Axis    string
	Legends []string // what the bars of a row are; none if each row has one
	Rows    []Row    // from top to bottom
}

// Row is a name with one bar for each series of figures.
type Row struct {
	Name   string
	Color  string      // of SVG
	Series [][]float64 // a bar is as long as the median of a series; a line shows the spread
	Remark string      // after the figure
}

// The measures of a chart, in pixels.
const (
	width   = 1134
	left    = 330 // where the bars begin
	right   = 200 // room for the figures
	top     = 64
	bar     = 20
	gap     = 16 // between rows
	bottom  = 64
	opacity = 0.45 // of a second bar
)

// SVG returns the picture.
func (c Chart) SVG() []byte {
	low, high := c.decades()
	x := func(figure float64) float64 {
		return left + (width-left-right)*math.Log10(max(figure, low)/low)/math.Log10(high/low)
	}
	bars := max(len(c.Legends), 1)
	pitch := bars*bar + gap
	end := top + len(c.Rows)*pitch
	var w strings.Builder
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="16" fill="#222">`+"\n", width, end+bottom)
	text := func(x, y float64, attributes, text string) {
		fmt.Fprintf(&w, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(text))
	}
	rect := func(x, y, width, height float64, color string, i int) {
		fmt.Fprintf(&w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" opacity="%.2f"/>`+"\n", x, y, width, height, color, math.Pow(opacity, float64(i)))
	}
	fmt.Fprintf(&w, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, end+bottom)
	text(16, 32, `font-size="24"`, c.Title)
	for i, legend := range c.Legends {
		rect(width-right-100, float64(14+22*i), 16, 16, "#8a939b", i)
		text(width-right-76, float64(28+22*i), "", legend)
	}
	for decade := low; decade <= high*1.01; decade *= 10 {
		fmt.Fprintf(&w, `<line x1="%[1]f" x2="%[1]f" y1="%d" y2="%d" stroke="#ddd"/>`+"\n", x(decade), top-6, end)
		text(x(decade), float64(end+18), `text-anchor="middle" font-size="14"`, figures.Fixed(0)(decade))
	}
	text(width/2, float64(end+46), `text-anchor="middle"`, c.Axis)
	for k, row := range c.Rows {
		y := float64(top + k*pitch)
		text(left-12, y+float64(bars*bar)/2+5, `text-anchor="end"`, row.Name)
		for i, series := range row.Series {
			median := figures.Median(series)
			if math.IsNaN(median) {
				continue
			}
			series = slices.DeleteFunc(slices.Clone(series), math.IsNaN)
			at, most := y+float64(i*bar), x(slices.Max(series))
			rect(left, at+1, x(median)-left, bar-2, row.Color, i)
			fmt.Fprintf(&w, `<line x1="%f" x2="%f" y1="%[3]f" y2="%[3]f" stroke="#222"/>`+"\n", x(slices.Min(series)), most, at+bar/2)
			text(max(most, x(median))+8, at+bar/2+5, `font-size="14"`, figures.Significant(median)+row.Remark)
		}
	}
	w.WriteString("</svg>\n")
	return []byte(w.String())
}

// decades returns the powers of ten around all figures, no less than 1.
func (c Chart) decades() (low, high float64) {
	low, high = math.Inf(1), 1
	for _, row := range c.Rows {
		for _, series := range row.Series {
			for _, figure := range series {
				if !math.IsNaN(figure) {
					low, high = min(low, figure), max(high, figure)
				}
			}
		}
	}
	low = math.Pow(10, math.Floor(math.Log10(max(low, 1))))
	return low, max(math.Pow(10, math.Ceil(math.Log10(high))), 10*low)
}
