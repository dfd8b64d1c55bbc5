//go:build linux

// Package cores confines processes to cores, so that what is measured and what drives it do not take each other's time, and reads how
// much time they used. A machine with one core shares it.
package cores

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The cores of all benchmarks.
const (
	Measured = 0 // what is measured has it to itself
	Driver   = 1 // the rest: the benchmark, its clients, and what it needs beside
)

// coreSet returns the set of one core, as far as the machine has it.
func coreSet(core int) *unix.CPUSet {
	var set unix.CPUSet
	set.Set(core % runtime.NumCPU())
	return &set
}

// Pin confines all threads of this process, present and future ones, to a core.
func Pin(core int) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, coreSet(core)); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("pin to core %d: %w", core, err)
		}
	}
	return nil
}

// StartOn calls start while the calling thread is on a core, so that a process started by it stays
// there. The thread is where it was afterwards.
func StartOn(core int, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read the cores of a thread: %w", err)
	}
	if err := unix.SchedSetaffinity(0, coreSet(core)); err != nil {
		return fmt.Errorf("pin to core %d: %w", core, err)
	}
	return errors.Join(start(), unix.SchedSetaffinity(0, &before))
}

// CPUTime returns the CPU time that a process has used, to the nanosecond.
func CPUTime(pid int) (time.Duration, error) {
	var ts unix.Timespec
	clock := int32(^pid<<3 | 2) // what clock_getcpuclockid(3) returns
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// BusyTime returns the time for which the cores of the machine were busy, including the time that a hypervisor took from them.
func BusyTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, field := range strings.Fields(line) {
		n, _ := strconv.ParseInt(field, 10, 64) // the first is a name
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100), nil
}
