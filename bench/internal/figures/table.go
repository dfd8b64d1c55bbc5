package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Column is a column of a table of results.
type Column[R any] struct {
	Title  string
	Format func(float64) string

	// Of returns the figure of a round. The column shows its median and spread.
	Of func(R) float64
	// Over names the row by whose figure of the same round Of is divided; nil if it is not divided.
	Over func(row string) string
	// Middle leaves the spread out.
	Middle bool
	// Best reports whether a row may have the least median of the column, which is set in bold; nil if no row may.
	Best func(row string) bool

	// Text is used instead of Of.
	Text func(row string, rounds []R) string
}

// Col returns a column of figures with so many digits after the point.
func Col[R any](title string, digits int, of func(R) float64) Column[R] {
	return Column[R]{Title: title, Format: Fixed(digits), Of: of}
}

// Count returns a column of whole numbers.
func Count[R any](title string, of func(R) int) Column[R] {
	return Col(title, 0, func(r R) float64 { return float64(of(r)) })
}

// Time returns a column of times in a unit.
func Time[R any](title string, digits int, unit time.Duration, of func(R) time.Duration) Column[R] {
	return Col(title, digits, func(r R) float64 { return float64(of(r)) / float64(unit) })
}

// Percent returns a column of shares, without their spread.
func Percent[R any](title string, of func(R) float64) Column[R] {
	return Column[R]{Title: title, Middle: true, Format: func(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }, Of: of}
}

// Ratio returns a column of ratios to the figures of another row.
func Ratio[R any](title string, of func(R) float64, over string) Column[R] {
	return Column[R]{Title: title, Format: Fixed(2), Of: of, Over: func(string) string { return over }}
}

// Text returns a column of words.
func Text[R any](title string, of func(row string, rounds []R) string) Column[R] {
	return Column[R]{Title: title, Text: of}
}

// Figures returns the figures of a row, or its ratios.
func (c Column[R]) Figures(results map[string][]R, row string) []float64 {
	figures := Each(results[row], c.Of)
	if c.Over != nil {
		figures = Ratios(figures, Each(results[c.Over(row)], c.Of))
	}
	return figures
}

// Table returns a table with a row for each name that has figures. The first column has the names, under head. The table is empty if no
// row has figures.
func Table[R any](head string, rows []string, results map[string][]R, columns ...Column[R]) string {
	var w strings.Builder
	for _, row := range rows {
		if !slices.ContainsFunc(columns, func(c Column[R]) bool { return c.Of != nil && !math.IsNaN(Median(c.Figures(results, row))) }) {
			continue
		}
		if w.Len() == 0 {
			header(&w, head, columns)
		}
		fmt.Fprintf(&w, "| %s |", row)
		for _, c := range columns {
			fmt.Fprintf(&w, " %s |", c.cell(rows, results, row))
		}
		w.WriteString("\n")
	}
	return w.String()
}

func header[R any](w *strings.Builder, head string, columns []Column[R]) {
	fmt.Fprintf(w, "| %s |", head)
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.Title)
	}
	w.WriteString("\n|---|")
	for _, c := range columns {
		if c.Text != nil {
			w.WriteString("---|")
		} else {
			w.WriteString("---:|")
		}
	}
	w.WriteString("\n")
}

func (c Column[R]) cell(rows []string, results map[string][]R, row string) string {
	if c.Text != nil {
		return c.Text(row, results[row])
	}
	figures := c.Figures(results, row)
	middle := Median(figures)
	if math.IsNaN(middle) {
		return none
	}
	text := Spread(c.Format, figures)
	if c.Middle {
		text = c.Format(middle)
	}
	if c.Best == nil || !c.Best(row) {
		return text
	}
	for _, other := range rows {
		if c.Best(other) && Median(c.Figures(results, other)) < middle {
			return text
		}
	}
	median := c.Format(middle)
	return "**" + median + "**" + strings.TrimPrefix(text, median)
}
