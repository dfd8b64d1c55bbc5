//go:build linux || darwin

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// hideInput keeps a terminal from showing what is typed, until show is called.
func hideInput(terminal *os.File) (show func(), err error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return func() {}, err
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, setTermios, &hidden); err != nil {
		return func() {}, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }, nil
}
