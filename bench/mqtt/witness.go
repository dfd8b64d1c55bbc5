package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	witnessSleep = 2 * time.Millisecond
	// disturbed is how long the machine may stall before latencies that were measured meanwhile say nothing of a server.
	disturbed = 100 * time.Millisecond
	// attempts is how often a disturbed measurement is made anew before the last one has to do.
	attempts = 2
)

// witness sleeps again and again on each core and notes how late it woke at worst. So it sees what other programs, or the host of a
// virtual machine, do to everybody.
type witness struct {
	quit    atomic.Bool
	worst   atomic.Int64 // ns
	threads sync.WaitGroup
	err     atomic.Pointer[error]
}

func startWitness() *witness {
	w := &witness{}
	for _, core := range []int{measuredCore, driverCore} {
		w.threads.Go(func() { w.watch(core) })
	}
	return w
}

func (w *witness) watch(core int) {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine, and its core with it
	if err := unix.SchedSetaffinity(0, coreSet(core)); err != nil {
		err = fmt.Errorf("pin to core %d: %w", core, err)
		w.err.Store(&err)
		return
	}
	sleep := unix.NsecToTimespec(witnessSleep.Nanoseconds())
	for !w.quit.Load() {
		begin := time.Now()
		_ = unix.Nanosleep(&sleep, nil) // interrupted, it sleeps less
		late := int64(time.Since(begin) - witnessSleep)
		for worst := w.worst.Load(); late > worst && !w.worst.CompareAndSwap(worst, late); worst = w.worst.Load() {
			continue
		}
	}
}

// stop ends the watch and returns the longest stall.
func (w *witness) stop() (time.Duration, error) {
	w.quit.Store(true)
	w.threads.Wait()
	if err := w.err.Load(); err != nil {
		return 0, *err
	}
	return time.Duration(w.worst.Load()), nil
}
