//go:build linux

package measured

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

// Memory is what a process has in use, in bytes.
type Memory struct {
	Heap   int // live objects of a program of Go
	Stacks int // of its goroutines

	Resident int `json:"-"` // in RAM, of the process that Hello names
}

// collect returns what can be returned to the system, and reads what is left.
func collect() Memory {
	runtime.GC() // what finalizers and pools hold goes with the second one
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return Memory{Heap: int(stats.HeapAlloc), Stacks: int(stats.StackInuse)}
}

// Resident returns the memory of a process that is in RAM, in bytes.
func Resident(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, resident int
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return resident * os.Getpagesize(), nil
}
