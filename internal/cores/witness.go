//go:build linux

package cores

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const witnessSleep = 2 * time.Millisecond

// Witness sleeps again and again on each core and notes how late it woke at worst. So it sees what other programs, or the host of a
// virtual machine, do to everybody.
type Witness struct {
	quit    atomic.Bool
	worst   atomic.Int64 // ns
	threads sync.WaitGroup
	err     atomic.Pointer[error]
}

// StartWitness begins a watch on some cores.
func StartWitness(cores ...int) *Witness {
	w := &Witness{}
	for _, core := range cores {
		w.threads.Go(func() { w.watch(core) })
	}
	return w
}

func (w *Witness) watch(core int) {
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

// Stop ends the watch and returns the longest stall.
func (w *Witness) Stop() (time.Duration, error) {
	w.quit.Store(true)
	w.threads.Wait()
	if err := w.err.Load(); err != nil {
		return 0, *err
	}
	return time.Duration(w.worst.Load()), nil
}
