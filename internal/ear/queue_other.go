//go:build !linux

package ear

// queued is known on Linux only.
func queued(int) (uint64, bool) { return 0, false }
