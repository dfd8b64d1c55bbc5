package cli

import "golang.org/x/sys/unix"

// How a terminal is asked for its settings, and given others.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)
