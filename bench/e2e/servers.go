package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/serve"
)

// servers are all of one scenario.
type servers []*serve.Server

// stop ends all servers.
func (all servers) stop() {
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(s.Stop)
	}
	wg.Wait()
}

// err returns why servers ended that should run.
func (all servers) err() error {
	var errs []error
	for i, s := range all {
		if err := s.Err(); err != nil {
			errs = append(errs, fmt.Errorf("server %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

// roll restarts a share of the servers, one after the other, at each signal that comes before ctx ends. Each has the same data and the
// same addresses afterwards.
func (all servers) roll(ctx context.Context, signals <-chan os.Signal) error {
	for turn := 0; ; turn++ {
		select {
		case <-signals:
		case <-ctx.Done():
			return nil
		}
		for i := turn % restarts; i < len(all); i += restarts {
			all[i].Stop()
			if err := all[i].Start(ctx); err != nil {
				return fmt.Errorf("restart server %d: %w", i+1, err)
			}
		}
	}
}

// usage is what was used of the machine while a scenario was played.
type usage struct {
	servers int           // bytes of memory of all servers together, at most
	machine int           // bytes that less was available on the whole machine than before, at most
	cpu     time.Duration // of all servers
	busy    time.Duration // of all cores together, whatever used them
	elapsed time.Duration
}

// meter measures what servers use. What a process of /proc no longer tells counts as nothing.
type meter struct {
	usage

	all       servers
	available int // bytes of memory before the servers were started
	began     time.Time
	busyAt    time.Duration
	cpuAt     time.Duration
}

// newMeter notes the memory that is available before the servers are started.
func newMeter() *meter {
	available, _ := measured.Available()
	return &meter{available: available}
}

// begin reads the clocks.
func (m *meter) begin(all servers) {
	m.all, m.began = all, time.Now()
	m.busyAt, _ = cores.BusyTime()
	m.cpuAt = m.used()
}

// used returns the CPU time of all servers that live.
func (m *meter) used() (sum time.Duration) {
	for _, s := range m.all {
		used, _ := cores.CPUTime(s.PID())
		sum += used
	}
	return sum
}

// run looks every so often, until ctx ends. To read the memory of a server takes it some milliseconds.
func (m *meter) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		m.look()
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.look()
			return
		}
	}
}

func (m *meter) look() {
	sum := 0
	for _, s := range m.all {
		n, _ := measured.Proportional(s.PID())
		sum += n
	}
	available, _ := measured.Available()
	busy, _ := cores.BusyTime()
	m.servers, m.machine = max(m.servers, sum), max(m.machine, m.available-available)
	m.cpu = max(m.cpu, m.used()-m.cpuAt)
	m.busy, m.elapsed = busy-m.busyAt, time.Since(m.began)
}
