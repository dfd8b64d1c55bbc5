//go:build !unix

package ear

// canWait is whether a listener can be waited at without accepting.
const canWait = false

// pending cannot tell here.
func pending(uintptr) bool { return false }
