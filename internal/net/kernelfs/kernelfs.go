// Package kernelfs reads what Linux says about a machine in the files below /proc and /sys. On other
// systems, and where a file is missing, nothing is known.
package kernelfs

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// Root is a directory that contains proc and sys: "/", but for tests. Its methods may be called
// concurrently.
type Root string

// File returns the text of a file of the kernel; "" if there is none.
func (r Root) File(name string) string {
	text, _ := os.ReadFile(path.Join(string(r), name)) // no more is known
	return strings.TrimSpace(string(text))
}

// Numbers returns the numbers of a file of the kernel; nil if there are none.
func (r Root) Numbers(name string) []uint64 {
	var all []uint64
	for text := range strings.FieldsSeq(r.File(name)) {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return all
}

// Number returns the one number of a file of the kernel.
func (r Root) Number(name string) (uint64, bool) {
	all := r.Numbers(name)
	if len(all) != 1 {
		return 0, false
	}
	return all[0], true
}
