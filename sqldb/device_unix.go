//go:build unix

package sqldb

import (
	"os"
	"syscall"
)

// sameDevice reports whether two files are on the same file system.
func sameDevice(a, b os.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	y, is := b.Sys().(*syscall.Stat_t)
	return ok && is && x.Dev == y.Dev
}
