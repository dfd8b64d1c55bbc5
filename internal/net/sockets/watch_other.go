//go:build !linux

package sockets

// watch is there on Linux only; elsewhere all connections are asked about.
type watch struct{}

func (*watch) begin() {}

func (*watch) end() {}

func (*watch) add(int) {}

func (*watch) ready(int, func(fd int)) bool { return false }

// queued is known on Linux only.
func queued(int) (uint64, bool) { return 0, false }
