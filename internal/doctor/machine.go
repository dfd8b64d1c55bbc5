package doctor

import (
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machine reads the limits of this machine, below a directory that contains proc and sys.
type machine struct{ root string }

// file returns the text of a file of the kernel; "" if there is none.
func (m machine) file(name string) string {
	text, _ := os.ReadFile(path.Join(m.root, name)) // no more is known
	return strings.TrimSpace(string(text))
}

// numbers returns the numbers of a file of the kernel; nil if there are none.
func (m machine) numbers(name string) []uint64 {
	var all []uint64
	for text := range strings.FieldsSeq(m.file(name)) {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return all
}

// number returns the one number of a file of the kernel.
func (m machine) number(name string) (uint64, bool) {
	all := m.numbers(name)
	if len(all) != 1 {
		return 0, false
	}
	return all[0], true
}

// openFiles returns the limits on open files of a process, and a text for it. If the process is 0 or
// cannot be examined, they are those of this process and its children.
func (m machine) openFiles(process int) (soft, hard uint64, of string) {
	if process > 0 {
		for line := range strings.Lines(m.file(fmt.Sprintf("proc/%d/limits", process))) {
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
	for line := range strings.Lines(m.file("proc/locks")) {
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
func (m machine) processName(process int) string { return m.file(fmt.Sprintf("proc/%d/comm", process)) }

// memory returns the memory that a process may use and the free part of it, in bytes, and a text for
// what limits it. All are zero if it is unknown.
func (m machine) memory() (limit, free uint64, of string) {
	for line := range strings.Lines(m.file("proc/meminfo")) {
		name, rest, _ := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		switch {
		case err != nil:
		case name == "MemTotal":
			limit = n << 10
		case name == "MemAvailable":
			free = n << 10
		}
	}
	of = "this machine"
	for _, version := range []struct{ controller, top, limit, used string }{
		{"", "sys/fs/cgroup", "memory.max", "memory.current"},
		{"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"}, // version 1
	} {
		for _, group := range m.controlGroups(version.controller, version.top) {
			most, ok := m.number(path.Join(group, version.limit))
			used, known := m.number(path.Join(group, version.used))
			if ok && known && most < limit {
				limit, of = most, "the control group"
				free = min(free, most-min(used, most))
			}
		}
	}
	return limit, free, of
}

// controlGroups returns the directories below top of this process's control groups for a controller,
// which is empty for version 2, the innermost first. In a container the name may be that on the host;
// the container's own group is mounted at the top.
func (m machine) controlGroups(controller, top string) []string {
	for line := range strings.Lines(m.file("proc/self/cgroup")) { // 4:cpu,memory:/name
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return upwards(top, parts[2])
		}
	}
	return nil
}

// upwards returns a directory below top and all its parents up to top.
func upwards(top, name string) (all []string) {
	for ; ; name = path.Dir(name) {
		all = append(all, path.Join(top, name))
		if name == "/" || name == "." {
			return all
		}
	}
}

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
