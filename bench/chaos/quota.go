//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// groups is where control groups are (v2).
const groups = "/sys/fs/cgroup"

// quotaPeriod is the time of which a process has its share.
const quotaPeriod = 100 * time.Millisecond

// quota gives a process a share of a core: by a control group of its own (v2)
// where one can be made, else by stopping it for the rest of each period.
type quota struct {
	group string
	stop  chan struct{} // closed to end the stopping
	ended sync.WaitGroup
}

func limitCPU(pid, percent int) *quota {
	q := &quota{}
	if q.inGroup(pid, percent) == nil {
		return q
	}
	q.group, q.stop = "", make(chan struct{})
	q.ended.Go(func() { q.cycle(pid, quotaPeriod*time.Duration(percent)/100) })
	return q
}

func (q *quota) inGroup(pid, percent int) error {
	q.group = filepath.Join(groups, "holter-chaos-"+strconv.Itoa(pid))
	if err := os.Mkdir(q.group, 0o755); err != nil {
		return err
	}
	err := put(filepath.Join(q.group, "cpu.max"), fmt.Sprintf("%d %d", quotaPeriod.Microseconds()*int64(percent)/100, quotaPeriod.Microseconds()))
	if err == nil {
		err = put(filepath.Join(q.group, "cgroup.procs"), strconv.Itoa(pid))
	}
	if err != nil {
		return errors.Join(err, os.Remove(q.group))
	}
	return nil
}

// put writes a file that is there: what is created is none of the kernel's.
func put(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// cycle lets the process run for a part of each period.
func (q *quota) cycle(pid int, run time.Duration) {
	for next := time.Now(); ; next = next.Add(quotaPeriod) {
		_ = syscall.Kill(pid, syscall.SIGCONT)
		if !q.sleep(time.Until(next.Add(run))) {
			return
		}
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it fails only if the process is gone
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

// lift ends the limit: the process goes back to the group that we are in.
func (q *quota) lift(pid int) error {
	if q.stop != nil {
		close(q.stop)
		q.ended.Wait()
		return nil
	}
	ours, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	_, name, _ := strings.Cut(string(ours), "0::")
	err = put(filepath.Join(groups, strings.TrimSpace(name), "cgroup.procs"), strconv.Itoa(pid))
	if errors.Is(err, syscall.ESRCH) {
		err = nil // it is gone
	}
	return errors.Join(err, os.Remove(q.group))
}
