package doctor

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/net/kernelfs"
)

// machine reads the limits of this machine.
type machine struct{ kernelfs.Root }

// openFiles returns the limits on open files of a process, and a text for it. If the process is 0 or
// cannot be examined, they are those of this process and its children.
func (m machine) openFiles(process int) (soft, hard uint64, of string) {
	if process > 0 {
		for line := range strings.Lines(m.File(fmt.Sprintf("proc/%d/limits", process))) {
			if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
				if fields := strings.Fields(rest); len(fields) >= 2 {
					return limitOf(fields[0]), limitOf(fields[1]), "the server, process " + strconv.Itoa(process)
				}
			}
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, 0, ""
	}
	return limit.Max, limit.Max, "what is started from here" // a Go program raises its own limit as far as it may
}

func limitOf(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil { // unlimited
		return math.MaxUint64
	}
	return n
}

// lockHolder returns the id of the process that holds the lock of a file; 0 if there is none, or it
// is unknown.
func (m machine) lockHolder(name string) int {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for line := range strings.Lines(m.File("proc/locks")) {
		fields := strings.Fields(line) // 1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF
		if len(fields) >= 6 && fields[1] == "FLOCK" && fields[5] == file {
			if process, err := strconv.Atoi(fields[4]); err == nil && process > 0 {
				return process
			}
		}
	}
	return 0
}

// processName returns the name of a process; "" if it is unknown.
func (m machine) processName(process int) string { return m.File(fmt.Sprintf("proc/%d/comm", process)) }

// disk is the free and total space of a file system.
type disk struct {
	free, total         uint64 // bytes; free for users other than root
	freeFiles, allFiles uint64
	readOnly            bool
}

func diskOf(name string) (disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(name, &st); err != nil {
		return disk{}, &os.PathError{Op: "statfs", Path: name, Err: err}
	}
	size := uint64(st.Bsize)
	return disk{
		free: st.Bavail * size, total: st.Blocks * size, freeFiles: st.Ffree, allFiles: st.Files, readOnly: st.Flags&unix.ST_RDONLY != 0,
	}, nil
}

// bytesText formats a number of bytes with a fitting unit.
func bytesText(n uint64) string {
	const step = 1024
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	f, i := float64(n), 0
	for ; f >= step && i < len(units)-1; i++ {
		f /= step
	}
	if i == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
