package kernelfs

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Memory returns the memory that this process may use and the free part of it, in bytes, and a text
// for what limits it: the machine, or the control group. All are zero if it is unknown.
func (r Root) Memory() (limit, free uint64, of string) {
	for line := range strings.Lines(r.File("proc/meminfo")) {
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
		for _, group := range r.controlGroups(version.controller, version.top) {
			most, ok := r.Number(path.Join(group, version.limit))
			used, known := r.Number(path.Join(group, version.used))
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
func (r Root) controlGroups(controller, top string) []string {
	for line := range strings.Lines(r.File("proc/self/cgroup")) { // 4:cpu,memory:/name
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
