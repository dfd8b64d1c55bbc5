package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// screen is what a command writes to: how wide it is, and whether it shows colours.
type screen struct {
	width  int // in columns; 0 for no bound: a file or a pipe
	colour bool
}

// screenOf looks at where a command writes.
func screenOf(out io.Writer) screen {
	f, ok := out.(*os.File)
	if !ok {
		return screen{}
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return screen{}
	}
	width := int(size.Col)
	if width == 0 { // of some consoles
		width = 80
	}
	return screen{width: width, colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// paint is a colour, as the parameter of an escape sequence; the empty one is none.
type paint string

const (
	green   paint = "32"
	yellow  paint = "33"
	red     paint = "31"
	blue    paint = "34"
	magenta paint = "35"
	faint   paint = "2"
	bold    paint = "1"
)

// in returns a text in a colour.
func (s screen) in(p paint, text string) string {
	if !s.colour || p == "" || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// column describes a column of a grid.
type column struct {
	name  string
	least int  // what it may shrink to where the screen is narrow; 0: it does not shrink
	inner bool // what is too long loses its middle, not its end
	right bool // aligned to the right
	spare bool // left out until a cell has a text
}

// cell is a text with a colour.
type cell struct {
	text  string
	paint paint
}

// grid is a table that is written piece by piece. A column is as wide as the longest cell that was seen so far, so later pieces keep
// the alignment if they can; the head is repeated if a column comes up. It is not for concurrent use.
type grid struct {
	screen  screen
	columns []column
	widths  []int
	rows    [][]cell
	headed  int // columns of the head that was written
}

func newGrid(s screen, columns ...column) *grid {
	g := &grid{screen: s, columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		if !c.spare {
			g.widths[i] = width(c.name)
		}
	}
	return g
}

// add adds a row; cells that are left out are empty.
func (g *grid) add(cells ...cell) {
	row := make([]cell, len(g.columns))
	for i := range min(len(cells), len(row)) {
		row[i] = cell{printable(cells[i].text), cells[i].paint}
		if row[i].text != "" {
			g.widths[i] = max(g.widths[i], width(row[i].text), width(g.columns[i].name))
		}
	}
	g.rows = append(g.rows, row)
}

// flush writes the rows that were added since the last time, below the head if it is the first.
func (g *grid) flush(out io.Writer) error {
	if len(g.rows) == 0 {
		return nil
	}
	widths := g.fitted()
	var text strings.Builder
	if shown := g.shown(); shown != g.headed {
		head := make([]cell, len(g.columns))
		for i, c := range g.columns {
			head[i] = cell{c.name, bold}
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
func (g *grid) shown() int {
	n := 0
	for _, w := range g.widths {
		n += min(w, 1)
	}
	return n
}

// gap is between two columns.
const gap = "  "

// fitted returns widths that fit the screen, as far as the columns can shrink: the widest first.
func (g *grid) fitted() []int {
	widths := append([]int(nil), g.widths...)
	if g.screen.width == 0 {
		return widths
	}
	total := len(gap) * (g.shown() - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > g.screen.width; total-- {
		widest := -1
		for i, c := range g.columns {
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

func (g *grid) line(out *strings.Builder, widths []int, row []cell) {
	var all strings.Builder
	lead := ""
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		text := shorten(c.text, widths[i], g.columns[i].inner)
		pad := strings.Repeat(" ", max(0, widths[i]-width(text)))
		all.WriteString(lead)
		if g.columns[i].right {
			all.WriteString(pad + g.screen.in(c.paint, text))
		} else {
			all.WriteString(g.screen.in(c.paint, text) + pad)
		}
		lead = gap
	}
	out.WriteString(strings.TrimRight(all.String(), " ") + "\n")
}

// shorten returns a text of at most so many columns, with … for what is left out: at the end, or in the middle.
func shorten(text string, columns int, inner bool) string {
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

// printable returns a text in which what would steer a terminal, or hide, is written as an escape: ids and messages are made by
// devices, and anybody may be one.
func printable(text string) string {
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
