//go:build linux

package measured

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Memory is the memory that a process has in use, in bytes.
type Memory struct {
	Heap   int // live objects of a program of Go
	Stacks int // of its goroutines

	Resident int `json:"-"` // in RAM, of the process that Hello names
}

// collect returns all unused memory to the system, and reads what is left.
func collect() Memory {
	runtime.GC() // what finalizers and pools hold goes with the second one
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return Memory{Heap: int(stats.HeapAlloc), Stacks: int(stats.StackInuse)}
}

// Resident returns the memory of a process that is in RAM, in bytes.
func Resident(pid int) (int, error) {
	n, err := kilobytes(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	return n << 10, err
}

// Settle returns all unused memory of this process to the system, and the bytes that it has in RAM then. Peak begins anew, see
// proc_pid_clear_refs(5).
func Settle() (int, error) {
	collect()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return 0, err
	}
	return Resident(os.Getpid())
}

// Peak returns the most memory that this process had in RAM, in bytes.
func Peak() (int, error) {
	n, err := kilobytes("/proc/self/status", "VmHWM")
	return n << 10, err
}

// Proportional returns the bytes of a process in RAM, with its share of those that it shares with others, such as its program.
func Proportional(pid int) (int, error) {
	n, err := kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss")
	return n << 10, err
}

// Available returns the bytes of memory that programs may still take.
func Available() (int, error) {
	n, err := kilobytes("/proc/meminfo", "MemAvailable")
	return n << 10, err
}

// kilobytes finds a line such as "Pss:  123 kB" in a file of the kernel.
func kilobytes(file, name string) (n int, err error) {
	text, err := Field(file, name)
	if err == nil {
		_, err = fmt.Sscan(text, &n)
	}
	return n, err
}

// Field returns what stands after the first colon of the first line that begins with a name in a
// file of the kernel.
func Field(file, name string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if key, rest, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("%s has no %s", file, name)
}
