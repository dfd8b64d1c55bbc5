//go:build linux

package measured

import (
	"os"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
)

// Meter reads the CPU clocks of processes at the beginning and the end of a measurement.
type Meter struct {
	pids []int // the first one is measured
	at   time.Time
	used []time.Duration
	busy time.Duration
}

// Usage is what was used during a measurement.
type Usage struct {
	Elapsed time.Duration
	CPU     time.Duration // of what is measured
	Share   float64       // of a core: what is measured
	Driver  float64       // of a core: what drives it, this process among it
	Others  float64       // of a core: all else; the kernel's interrupts may be among it
}

// StartMeter begins to measure a process; this one and the others drive it.
func StartMeter(pid int, others ...int) (m Meter, err error) {
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

// Read returns what was used since the meter was started.
func (m Meter) Read() (Usage, error) {
	elapsed := time.Since(m.at)
	end, err := StartMeter(m.pids[0], m.pids[2:]...)
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
