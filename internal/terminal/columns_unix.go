//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// columns returns how wide a terminal is; an error if the file is none.
func columns(f *os.File) (int, error) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, err
	}
	return int(size.Col), nil
}
