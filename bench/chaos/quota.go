//go:build linux

package chaos

import (
	"sync"
	"syscall"
	"time"
)

// quotaPeriod is the period of which a process has its share.
const quotaPeriod = 100 * time.Millisecond

// quota gives a process a share of a core: it is stopped for the rest of each period.
type quota struct {
	stop  chan struct{} // closed by lift
	ended sync.WaitGroup
}

func limitCPU(pid, percent int) *quota {
	q := &quota{stop: make(chan struct{})}
	q.ended.Go(func() { q.cycle(pid, quotaPeriod*time.Duration(percent)/100) })
	return q
}

// cycle lets the process run for a part of each period. Signals fail only if the process is gone.
func (q *quota) cycle(pid int, run time.Duration) {
	for next := time.Now(); ; next = next.Add(quotaPeriod) {
		_ = syscall.Kill(pid, syscall.SIGCONT)
		if !q.sleep(time.Until(next.Add(run))) {
			return
		}
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		if !q.sleep(time.Until(next.Add(quotaPeriod))) {
			_ = syscall.Kill(pid, syscall.SIGCONT)
			return
		}
	}
}

func (q *quota) sleep(length time.Duration) bool {
	select {
	case <-q.stop:
		return false
	case <-time.After(length):
		return true
	}
}

// lift ends the limit.
func (q *quota) lift() {
	close(q.stop)
	q.ended.Wait()
}
