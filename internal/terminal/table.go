// Package terminal writes for people: tables that fit the screen, colours, numbers, durations, and text
// in which nothing steers the terminal.
package terminal

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// Screen is what a command writes to: how wide it is, and whether it shows colours.
type Screen struct {
	Width  int // in columns; 0 for no bound: a file or a pipe
	Colour bool
}

// ScreenOf looks at where a command writes.
func ScreenOf(out io.Writer) Screen {
	f, ok := out.(*os.File)
	if !ok {
		return Screen{}
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return Screen{}
	}
	width := int(size.Col)
	if width == 0 { // of some consoles
		width = 80
	}
	return Screen{Width: width, Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Paint is a colour, as the parameter of an escape sequence; the empty one is none.
type Paint string

// The colours and weights that are used.
const (
	Green   Paint = "32" // as "online"
	Yellow  Paint = "33" // as "late"
	Red     Paint = "31" // as "offline"
	Blue    Paint = "34" // as "sleeping"
	Magenta Paint = "35" // as "unknown"
	Faint   Paint = "2"  // less than the text around
	Bold    Paint = "1"  // more than the text around
)

// In returns a text in a colour.
func (s Screen) In(p Paint, text string) string {
	if !s.Colour || p == "" || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// Column describes a column of a grid.
type Column struct {
	Name  string
	Least int  // what it may shrink to where the screen is narrow; 0: it does not shrink
	Inner bool // what is too long loses its middle, not its end
	Right bool // aligned to the right
	Spare bool // left out until a cell has a text
}

// Cell is a text with a colour.
type Cell struct {
	Text  string
	Paint Paint
}

// Grid is a table that is written piece by piece. A column is as wide as the longest cell that was seen so far, so later pieces keep
// the alignment if they can; the head is repeated if a column comes up. It is not for concurrent use.
type Grid struct {
	screen  Screen
	columns []Column
	widths  []int
	rows    [][]Cell
	headed  int // columns of the head that was written
}

// NewGrid returns an empty table for a screen.
func NewGrid(s Screen, columns ...Column) *Grid {
	g := &Grid{screen: s, columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		if !c.Spare {
			g.widths[i] = width(c.Name)
		}
	}
	return g
}

// Add adds a row; cells that are left out are empty.
func (g *Grid) Add(cells ...Cell) {
	row := make([]Cell, len(g.columns))
	for i := range min(len(cells), len(row)) {
		row[i] = Cell{Printable(cells[i].Text), cells[i].Paint}
		if row[i].Text != "" {
			g.widths[i] = max(g.widths[i], width(row[i].Text), width(g.columns[i].Name))
		}
	}
	g.rows = append(g.rows, row)
}

// Flush writes the rows that were added since the last time, below the head if it is the first.
func (g *Grid) Flush(out io.Writer) error {
	if len(g.rows) == 0 {
		return nil
	}
	widths := g.fitted()
	var text strings.Builder
	if shown := g.shown(); shown != g.headed {
		head := make([]Cell, len(g.columns))
		for i, c := range g.columns {
			head[i] = Cell{c.Name, Bold}
		}
		g.line(&text, widths, head)
		g.headed = shown
	}
	for _, row := range g.rows {
		g.line(&text, widths, row)
	}
	g.rows = g.rows[:0]
	_, err := io.WriteString(out, text.String())
	return err
}

// shown returns how many columns are shown: those with a width.
func (g *Grid) shown() int {
	n := 0
	for _, w := range g.widths {
		n += min(w, 1)
	}
	return n
}

// gap is between two columns.
const gap = "  "

// fitted returns widths that fit the screen, as far as the columns can shrink: the widest first.
func (g *Grid) fitted() []int {
	widths := append([]int(nil), g.widths...)
	if g.screen.Width == 0 {
		return widths
	}
	total := len(gap) * (g.shown() - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > g.screen.Width; total-- {
		widest := -1
		for i, c := range g.columns {
			if c.Least > 0 && widths[i] > max(c.Least, width(c.Name)) && (widest < 0 || widths[i] > widths[widest]) {
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

func (g *Grid) line(out *strings.Builder, widths []int, row []Cell) {
	var all strings.Builder
	lead := ""
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		text := Shorten(c.Text, widths[i], g.columns[i].Inner)
		pad := strings.Repeat(" ", max(0, widths[i]-width(text)))
		all.WriteString(lead)
		if g.columns[i].Right {
			all.WriteString(pad + g.screen.In(c.Paint, text))
		} else {
			all.WriteString(g.screen.In(c.Paint, text) + pad)
		}
		lead = gap
	}
	out.WriteString(strings.TrimRight(all.String(), " ") + "\n")
}

// Shorten returns a text of at most so many columns, with … for what is left out: at the end, or in the middle.
func Shorten(text string, columns int, inner bool) string {
	if width(text) <= columns {
		return text
	}
	if columns < 1 {
		return ""
	}
	head := columns - 1
	tail := 0
	if inner {
		tail = head / 2
		head -= tail
	}
	runes := []rune(text)
	from, used := 0, 0
	for from < len(runes) && used+runeWidth(runes[from]) <= head {
		used += runeWidth(runes[from])
		from++
	}
	to := len(runes)
	for used = 0; to > from && used+runeWidth(runes[to-1]) <= tail; to-- {
		used += runeWidth(runes[to-1])
	}
	return string(runes[:from]) + "…" + string(runes[to:])
}

// width returns how many columns of a terminal a text takes.
func width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

// runeWidth is good enough for alignment: two columns for the wide letters of East Asia and for emoji, none for marks that stand on
// the letter before.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// Printable returns a text in which what would steer a terminal, or hide, is written as an escape: ids and messages are made by
// devices, and anybody may be one.
func Printable(text string) string {
	if strings.IndexFunc(text, hidden) < 0 && !strings.ContainsRune(text, unicode.ReplacementChar) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if !hidden(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

// hidden says whether a letter has no shape of its own.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Cf, r) || bidirectional(r)
}

// bidirectional says whether a letter turns the direction of those around it.
func bidirectional(r rune) bool {
	return r == 0x61c || r >= 0x200e && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// Buffered returns how many rows wait for Flush.
func (g *Grid) Buffered() int { return len(g.rows) }

// IsTerminal reports whether out is a terminal.
func IsTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
