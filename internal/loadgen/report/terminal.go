package report

import (
	"os"

	"golang.org/x/sys/unix"
)

// dimensionsOf returns a function that reads the size of a terminal; false if the file is none.
func dimensionsOf(f *os.File) (dimensions func() (columns, lines int), ok bool) {
	of := func() (*unix.Winsize, error) { return unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ) }
	if _, err := of(); err != nil {
		return nil, false
	}
	return func() (columns, lines int) {
		w, err := of()
		if err != nil || w.Col == 0 || w.Row == 0 {
			return 80, 24
		}
		return int(w.Col), int(w.Row)
	}, true
}
