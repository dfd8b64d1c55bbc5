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
	serverCore = 0
	clientCore = 1
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
	return errors.Join(start(), unix.SchedSetaffinity(0, coreSet(clientCore)))
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

// meter reads clocks at the begin and the end of what is measured.
type meter struct {
	at                   time.Time
	server, client, busy time.Duration
}

// usage is what was used meanwhile. The shares are those of one core.
type usage struct {
	elapsed     time.Duration
	server      time.Duration
	serverShare float64
	otherShare  float64 // by all that is neither server nor client; the kernel's interrupts may be among it
}

func startMeter(c *child) (m meter, err error) {
	if m.server, err = c.cpu(); err != nil {
		return m, err
	}
	if m.client, err = cpuTime(os.Getpid()); err != nil {
		return m, err
	}
	if m.busy, err = busyTime(); err != nil {
		return m, err
	}
	m.at = time.Now()
	return m, nil
}

func (m meter) read(c *child) (usage, error) {
	elapsed := time.Since(m.at)
	end, err := startMeter(c)
	if err != nil {
		return usage{}, err
	}
	u := usage{elapsed: elapsed, server: end.server - m.server}
	share := func(d time.Duration) float64 { return max(d.Seconds(), 0) / elapsed.Seconds() }
	u.serverShare = share(u.server)
	u.otherShare = share(end.busy - m.busy - u.server - (end.client - m.client))
	return u, nil
}
