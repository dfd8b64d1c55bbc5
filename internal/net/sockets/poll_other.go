//go:build !unix

package sockets

// canPoll reports whether a listener can be waited at without accepting.
const canPoll = false

// poller cannot ask here.
type poller struct{}

func (*poller) ask([]int) bool { return false }

func (*poller) readable(int) bool { return false }

func pending(uintptr) bool { return false }
