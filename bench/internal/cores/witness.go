//go:build linux

package cores

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const witnessSleep = 2 * time.Millisecond

// Witness calls measure and returns the longest stall of the machine meanwhile: on both cores a thread sleeps again and again, and the
// stall is how late it woke at worst. Other programs cause stalls, and so does the host of a virtual machine.
func Witness(measure func() error) (stall time.Duration, err error) {
	var (
		quit    atomic.Bool
		threads sync.WaitGroup
		worst   [2]time.Duration
		errs    [2]error
	)
	for core := range worst {
		threads.Go(func() { worst[core], errs[core] = watch(core, &quit) })
	}
	err = measure()
	quit.Store(true)
	threads.Wait()
	return max(worst[Measured], worst[Driver]), errors.Join(err, errs[Measured], errs[Driver])
}

// watch returns how late a thread on a core woke at worst.
func watch(core int, quit *atomic.Bool) (worst time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return 0, fmt.Errorf("read the cores of a thread: %w", err)
	}
	if err := unix.SchedSetaffinity(0, coreSet(core)); err != nil {
		return 0, fmt.Errorf("pin to core %d: %w", core, err)
	}
	// The thread must not end: the kernel would kill the processes that it has started.
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	sleep := unix.NsecToTimespec(witnessSleep.Nanoseconds())
	for !quit.Load() {
		begin := time.Now()
		_ = unix.Nanosleep(&sleep, nil) // interrupted, it sleeps less
		worst = max(worst, time.Since(begin)-witnessSleep)
	}
	return worst, nil
}
