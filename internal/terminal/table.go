package terminal

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cell is a text with a colour.
type Cell struct {
	Text  string
	Paint Paint
}

// Table writes rows under a head, piece by piece. A cell is a [Cell], a string, a number or a time, of
// which the zero is left empty. A column is a name, followed by options:
//
//	NOTE,least=8  shrinks to 8 columns where the screen is narrow; others do not shrink
//	ID,inner      loses its middle instead of its end when it shrinks
//	LAG,right     is aligned to the right, as numbers always are
//	ERROR,spare   is left out until a row has a value for it
//
// A column is as wide as the longest cell so far, so that later pieces keep the alignment if they can.
// The head is repeated when a column appears. A Table is not safe for concurrent use.
type Table struct {
	screen  Screen
	columns []column
	widths  []int
	rows    [][]Cell
	headed  int // columns in the head that was written last
}

type column struct {
	name                string
	least               int // 0: does not shrink
	inner, right, spare bool
}

// NewTable returns an empty table for a screen.
func NewTable(s Screen, columns ...string) *Table {
	t := &Table{screen: s, columns: make([]column, len(columns)), widths: make([]int, len(columns))}
	for i, text := range columns {
		options := strings.Split(text, ",")
		c := &t.columns[i]
		*c = column{name: options[0], inner: slices.Contains(options, "inner"), right: slices.Contains(options, "right"), spare: slices.Contains(options, "spare")}
		if _, least, ok := strings.Cut(text, ",least="); ok {
			least, _, _ = strings.Cut(least, ",")
			c.least, _ = strconv.Atoi(least)
		}
		if !c.spare {
			t.widths[i] = width(c.name)
		}
	}
	return t
}

// Add adds a row, which has a cell for each column.
func (t *Table) Add(row ...any) {
	cells := make([]Cell, len(t.columns))
	for i := range cells {
		cells[i] = cellOf(row[i])
		if kind := reflect.TypeOf(row[i]).Kind(); kind >= reflect.Int && kind <= reflect.Float64 {
			t.columns[i].right = true
		}
		if text := cells[i].Text; text != "" {
			t.widths[i] = max(t.widths[i], width(text), width(t.columns[i].name))
		}
	}
	t.rows = append(t.rows, cells)
}

func cellOf(value any) Cell {
	switch v := value.(type) {
	case Cell:
		return Cell{Printable(v.Text), v.Paint}
	case time.Time:
		if v.IsZero() {
			return Cell{}
		}
		return Cell{Text: Stamp(v)}
	}
	return Cell{Text: Printable(fmt.Sprint(value))}
}

// Buffered returns how many rows wait for Flush.
func (t *Table) Buffered() int { return len(t.rows) }

// Flush writes the rows that were added since the last time, below the head if it is the first.
func (t *Table) Flush(out io.Writer) error {
	if len(t.rows) == 0 {
		return nil
	}
	widths := t.fitted()
	var text strings.Builder
	if shown := t.shown(); shown != t.headed {
		head := make([]Cell, len(t.columns))
		for i, c := range t.columns {
			head[i] = Cell{c.name, Bold}
		}
		t.line(&text, widths, head)
		t.headed = shown
	}
	for _, row := range t.rows {
		t.line(&text, widths, row)
	}
	t.rows = t.rows[:0]
	_, err := io.WriteString(out, text.String())
	return err
}

// shown returns how many columns are shown: those with a width.
func (t *Table) shown() int {
	n := 0
	for _, w := range t.widths {
		n += min(w, 1)
	}
	return n
}

// gap separates two columns.
const gap = "  "

// fitted returns widths that fit the screen as far as the columns can shrink, the widest first.
func (t *Table) fitted() []int {
	widths := append([]int(nil), t.widths...)
	if t.screen.Width == 0 {
		return widths
	}
	total := len(gap) * (t.shown() - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > t.screen.Width; total-- {
		widest := -1
		for i, c := range t.columns {
			if c.least > 0 && widths[i] > max(c.least, width(c.name)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

func (t *Table) line(out *strings.Builder, widths []int, row []Cell) {
	var all strings.Builder
	lead := ""
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		text := Shorten(c.Text, widths[i], t.columns[i].inner)
		pad := strings.Repeat(" ", max(0, widths[i]-width(text)))
		all.WriteString(lead)
		if t.columns[i].right {
			all.WriteString(pad + t.screen.In(c.Paint, text))
		} else {
			all.WriteString(t.screen.In(c.Paint, text) + pad)
		}
		lead = gap
	}
	out.WriteString(strings.TrimRight(all.String(), " ") + "\n")
}
