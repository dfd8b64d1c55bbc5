//go:build linux

package chaos

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// stateOf returns the state, and parentOf the parent, from a stat file of /proc.
func stateOf(stat []byte) byte {
	fields := afterName(stat)
	if len(fields) < 1 || len(fields[0]) != 1 {
		return 'X'
	}
	return fields[0][0]
}

func parentOf(stat []byte) int {
	fields := afterName(stat)
	if len(fields) < 2 {
		return 0
	}
	pid, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0
	}
	return pid
}

// afterName returns the fields after the name, which may contain anything.
func afterName(stat []byte) [][]byte {
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}

// family returns a process and its children.
func family(pid int) []int {
	pids := []int{pid}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return pids
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil || parentOf(stat) != pid {
			continue // gone, or not of the family
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}
