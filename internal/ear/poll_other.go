//go:build !unix

package ear

// poller cannot tell here.
type poller struct{}

func (*poller) ask([]int) bool { return false }

func (*poller) readable(int) bool { return false }
