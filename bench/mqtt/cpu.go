package main

import (
	"fmt"
	"os"
	"time"

	"github.com/holter-iot/holter/internal/cores"
)

// The cores. On a machine with one core everything shares it.
const (
	measuredCore = 0
	driverCore   = 1
)

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

const (
	// disturbed is how long the machine may stall before latencies that were measured meanwhile say nothing of a server.
	disturbed = 100 * time.Millisecond
	// attempts is how often a disturbed measurement is made anew before the last one has to do.
	attempts = 2
)

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
		used, err := cores.CPUTime(pid)
		if err != nil {
			return m, err
		}
		m.used = append(m.used, used)
	}
	if m.busy, err = cores.BusyTime(); err != nil {
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
