package main

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

// The cores. On a machine with one core everything shares it.
const (
	measuredCore = 0
	driverCore   = 1
)

// coreSet returns the set of one core, as far as the machine has it.
func coreSet(core int) *unix.CPUSet {
	var set unix.CPUSet
	set.Set(core % runtime.NumCPU())
	return &set
}

// pinProcess confines all threads of this process, and those to come, to a core.
func pinProcess(core int) error {
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

// startOn runs start with the calling thread on a core, so that a process that it starts is born there and stays there.
func startOn(core int, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetaffinity(0, coreSet(core)); err != nil {
		return fmt.Errorf("pin to core %d: %w", core, err)
	}
	return errors.Join(start(), unix.SchedSetaffinity(0, coreSet(driverCore)))
}

// cpuTime returns the CPU time that a process has used, to the nanosecond.
func cpuTime(pid int) (time.Duration, error) {
	var ts unix.Timespec
	clock := int32(^pid<<3 | 2) // what clock_getcpuclockid(3) returns
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// residentOf returns the memory of a process that is in RAM, in bytes.
func residentOf(pid int) (int, error) {
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

// busyTime returns the time for which the cores of the machine worked for anybody, the time that a hypervisor took from them included.
func busyTime() (time.Duration, error) {
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

// meter reads the clocks of processes at the beginning and the end of what is measured. The first process is the one that is measured.
type meter struct {
	pids []int
	at   time.Time
	used []time.Duration
	busy time.Duration
}

// Usage is what was used meanwhile.
type Usage struct {
	Elapsed time.Duration
	CPU     time.Duration // of what is measured
	Share   float64       // of a core: what is measured
	Driver  float64       // of a core: what drives it, this process among it
	Others  float64       // of a core: all else; the kernel's interrupts may be among it
}

// startMeter begins to measure a process; others drive it.
func startMeter(pid int, others ...int) (m meter, err error) {
	m.pids = append([]int{pid, os.Getpid()}, others...)
	for _, pid := range m.pids {
		used, err := cpuTime(pid)
		if err != nil {
			return m, err
		}
		m.used = append(m.used, used)
	}
	if m.busy, err = busyTime(); err != nil {
		return m, err
	}
	m.at = time.Now()
	return m, nil
}

func (m meter) read() (Usage, error) {
	elapsed := time.Since(m.at)
	end, err := startMeter(m.pids[0], m.pids[2:]...)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Elapsed: elapsed, CPU: end.used[0] - m.used[0]}
	var driver time.Duration
	for i := 1; i < len(m.used); i++ {
		driver += end.used[i] - m.used[i]
	}
	share := func(d time.Duration) float64 { return max(d.Seconds(), 0) / elapsed.Seconds() }
	u.Share, u.Driver = share(u.CPU), share(driver)
	u.Others = share(end.busy - m.busy - u.CPU - driver)
	return u, nil
}
