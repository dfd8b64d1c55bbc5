// Package page shows the answer of a replay as a page for people, which needs nothing beside it and no
// network: charts, and a table with the same numbers.
package page

import (
	_ "embed"
	"fmt"
	"io"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"github.com/holter-iot/holter/internal/habit"
	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/internal/terminal"
)

//go:embed page.html
var pageHTML string

// page is what page.html shows.
type page struct {
	*replay.Answer

	About  string
	Charts []chart
	Rows   []row
}

// row is a row of the table.
type row struct {
	replay.Point

	Name, Class string
}

// WriteHTML writes the page.
func WriteHTML(out io.Writer, a *replay.Answer) error {
	t, err := template.New("page").Funcs(template.FuncMap{"span": span, "bound": bound, "rate": rate, "stamp": stamp}).Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("replay: page: %w", err)
	}
	if err := t.Execute(out, page{a, about(a), charts(a), rows(a)}); err != nil {
		return fmt.Errorf("replay: page: %w", err)
	}
	return nil
}

func about(a *replay.Answer) string {
	switch {
	case a.Device != "":
		return "device " + a.Device
	case a.Group != "":
		return "group " + a.Group
	}
	return "all devices"
}

// rows returns the rows of the table: today, what was learned, and the values.
func rows(a *replay.Answer) []row {
	all := []row{{a.Today, "today", "today"}}
	if a.Learned != nil {
		all = append(all, row{*a.Learned, "learned", "learned"})
	}
	for _, p := range a.Points {
		all = append(all, row{Point: p})
	}
	return all
}

// span writes a duration; nothing if it is 0.
func span(m replay.Millis) string {
	if m == 0 {
		return ""
	}
	return habit.Show(m.Duration())
}

// bound writes a count, with a mark if it is a lower bound.
func bound(n int, isBound bool) string {
	if isBound {
		return "≥ " + terminal.Grouped(n)
	}
	return terminal.Grouped(n)
}

func rate(v float64) string { return terminal.Figure(v) }

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02 15:04") }
