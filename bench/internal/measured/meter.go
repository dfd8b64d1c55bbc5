//go:build linux

package measured

import (
	"os"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
)

// Usage is what was used during a measurement.
type Usage struct {
	Elapsed time.Duration
	CPU     time.Duration // of what is measured
	Share   float64       // of a core: what is measured
	Driver  float64       // of a core: what drives it, this process among it
	Others  float64       // of a core: all else; the kernel's interrupts may be among it
}

// During calls do, and returns what a process used meanwhile. This process and others drive it.
func During(do func() error, pid int, drivers ...int) (u Usage, err error) {
	drivers = append(drivers, os.Getpid())
	begin, before := time.Now(), clocks{}
	if err := before.read(pid, drivers); err != nil {
		return u, err
	}
	if err := do(); err != nil {
		return u, err
	}
	u.Elapsed = time.Since(begin)
	var after clocks
	if err := after.read(pid, drivers); err != nil {
		return u, err
	}
	u.CPU = after.measured - before.measured
	driver := after.drivers - before.drivers
	share := func(d time.Duration) float64 { return max(d.Seconds(), 0) / u.Elapsed.Seconds() }
	u.Share, u.Driver, u.Others = share(u.CPU), share(driver), share(after.busy-before.busy-u.CPU-driver)
	return u, nil
}

// clocks are CPU times: of processes, and for which the cores of the machine were busy.
type clocks struct{ measured, drivers, busy time.Duration }

func (c *clocks) read(pid int, drivers []int) (err error) {
	if c.measured, err = cores.CPUTime(pid); err != nil {
		return err
	}
	for _, driver := range drivers {
		used, err := cores.CPUTime(driver)
		if err != nil {
			return err
		}
		c.drivers += used
	}
	c.busy, err = cores.BusyTime()
	return err
}
