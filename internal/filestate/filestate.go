// Package filestate tells, without reading a file, whether it has changed since it was read last.
// Its functions have no side effects.
package filestate

import "os"

// Same reports whether a file is, by all signs, the one that was seen before; nil stands for no
// file. Size and time of change do not suffice: all files of an image or of a Nix store have one
// time. So it must be the same file, too, and on Linux one whose inode has not changed, a time that
// no program can set back.
func Same(now, seen os.FileInfo) bool {
	if now == nil || seen == nil {
		return now == seen
	}
	return os.SameFile(now, seen) && now.Size() == seen.Size() && now.ModTime().Equal(seen.ModTime()) && inodeChange(now) == inodeChange(seen)
}
