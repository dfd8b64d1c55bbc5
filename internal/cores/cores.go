//go:build linux

// Package cores confines processes to cores, for measurements that are not to take each other's time, and tells what was used of them.
// A machine with fewer cores shares them.
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

// coreSet returns the set of one core, as far as the machine has it.
func coreSet(core int) *unix.CPUSet {
	var set unix.CPUSet
	set.Set(core % runtime.NumCPU())
	return &set
}

// Pin confines all threads of this process, and those to come, to a core.
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

// StartOn runs start with the calling thread on a core, so that a process that it starts is born there and stays there; the
// thread goes on on the core back.
func StartOn(core, back int, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetaffinity(0, coreSet(core)); err != nil {
		return fmt.Errorf("pin to core %d: %w", core, err)
	}
	return errors.Join(start(), unix.SchedSetaffinity(0, coreSet(back)))
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

// BusyTime returns the time for which the cores of the machine worked for anybody, the time that a hypervisor took from them included.
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
