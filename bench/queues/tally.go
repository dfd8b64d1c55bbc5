package queues

import (
	"fmt"
	"sync/atomic"
	"time"
)

// tally counts the jobs that are worked, which have the numbers from 0 on. It may be used concurrently.
type tally struct {
	seen    []atomic.Uint64 // a bit for each number
	size    int
	count   atomic.Int64 // numbers that came
	wrong   atomic.Int64 // that came again, or are none
	began   []atomic.Int64
	started time.Time // that began is counted from, in nanoseconds

	first, all chan struct{} // closed when the first job, and the last one, is begun
}

// newTally returns one for n jobs. It keeps the instants when jobs are begun if asked to.
func newTally(n int, instants bool) *tally {
	t := &tally{seen: make([]atomic.Uint64, n/64+1), size: n, started: time.Now(), first: make(chan struct{}), all: make(chan struct{})}
	if instants {
		t.began = make([]atomic.Int64, n)
	}
	return t
}

// begin notes that a job is begun.
func (t *tally) begin(n int) {
	now := time.Since(t.started)
	if n < 0 || n >= t.size {
		t.wrong.Add(1)
		return
	}
	bit := uint64(1) << (n % 64)
	if t.seen[n/64].Or(bit)&bit != 0 {
		t.wrong.Add(1)
		return
	}
	if t.began != nil {
		t.began[n].Store(int64(now))
	}
	count := t.count.Add(1)
	if count == 1 {
		close(t.first)
	}
	if count == int64(t.size) {
		close(t.all)
	}
}

// check returns an error unless each job was either begun once, or is one of those that are left.
func (t *tally) check(left int) error {
	if count, wrong := t.count.Load(), t.wrong.Load(); wrong > 0 || int(count)+left != t.size {
		return fmt.Errorf("of %d jobs %d were begun, and %d are left; %d more beginnings were of jobs that had begun before, or do not exist",
			t.size, count, left, wrong)
	}
	return nil
}
