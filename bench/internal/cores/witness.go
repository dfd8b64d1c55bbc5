//go:build linux

package cores

import (
	"errors"
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
		threads.Go(func() {
			errs[core] = StartOn(core, func() error {
				worst[core] = watch(&quit)
				return nil
			})
		})
	}
	err = measure()
	quit.Store(true)
	threads.Wait()
	return max(worst[Measured], worst[Driver]), errors.Join(err, errs[Measured], errs[Driver])
}

// watch returns how late the calling thread woke at worst.
func watch(quit *atomic.Bool) (worst time.Duration) {
	sleep := unix.NsecToTimespec(witnessSleep.Nanoseconds())
	for !quit.Load() {
		begin := time.Now()
		_ = unix.Nanosleep(&sleep, nil) // interrupted, it sleeps less
		worst = max(worst, time.Since(begin)-witnessSleep)
	}
	return worst
}
