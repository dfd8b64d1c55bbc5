// Package terminal writes for people: tables that fit the screen, colours, numbers, durations, and
// text that cannot steer the terminal.
package terminal

import (
	"io"
	"os"
)

// Screen describes what a command writes to.
type Screen struct {
	Width  int // in columns; 0 for no limit: a file or a pipe
	Colour bool
}

// ScreenOf returns the screen behind out.
func ScreenOf(out io.Writer) Screen {
	f, ok := out.(*os.File)
	if !ok {
		return Screen{}
	}
	width, err := columns(f)
	if err != nil {
		return Screen{}
	}
	if width == 0 { // some consoles do not know theirs
		width = 80
	}
	return Screen{Width: width, Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// IsTerminal reports whether out is a terminal.
func IsTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Paint is a colour or weight, as the parameter of an escape sequence; the empty one is none.
type Paint string

// The colours and weights in use.
const (
	Green   Paint = "32" // good
	Yellow  Paint = "33" // worth a look
	Red     Paint = "31" // bad
	Blue    Paint = "34" // asleep
	Magenta Paint = "35" // not known
	Faint   Paint = "2"  // beside the point
	Bold    Paint = "1"  // headings
)

// In returns a text in a colour, if the screen has any.
func (s Screen) In(p Paint, text string) string {
	if !s.Colour || p == "" || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}
