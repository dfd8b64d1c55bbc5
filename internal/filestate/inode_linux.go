package filestate

import (
	"os"
	"syscall"
)

// inodeChange returns when the inode of a file changed last, with each write among others.
func inodeChange(info os.FileInfo) (at syscall.Timespec) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		at = stat.Ctim
	}
	return at
}
