package rivals

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	closeAccepted metric = "close_accepted"
	closeRan      metric = "close_ran"
	closeLost     metric = "close_lost"
	closeRefused  metric = "close_refused"
	closePanicked metric = "close_panicked"
	closeHung     metric = "close_hung"
)

// closeSlack is how long before the closing a timer that is due at once must have been armed to be called lost when it did not
// run. What was armed later was hardly due.
const closeSlack = 5 * time.Millisecond

// closing measures what becomes of goroutines that arm one timer each, due at once, while the rival is closed. The closing
// begins when a quarter of them have armed.
func (b *bench) closing(_ context.Context, round int, c contender) error {
	if c.name != holterFuncName && c.name != mapsName {
		return nil
	}
	freeMemory()
	n := b.adders
	ran := make([]atomic.Bool, n)
	s := newSetup(n, func(i int) { ran[i].Store(true) })
	s.each = true
	r, err := c.open(s)
	if err != nil {
		return err
	}
	a := newAdders(r, n)
	for i := range n {
		go a.add(i)
	}
	close(a.gate)
	if !closedIn(a.quarter, b.patience) {
		r.close()
		return errSilent
	}
	closed := time.Since(a.start)
	r.close()
	for wait := time.Now().Add(2 * time.Second); a.returned.Load() < int64(n) && time.Now().Before(wait); {
		<-time.After(time.Millisecond)
	}
	var run, lost int64
	for i := range n {
		switch at := time.Duration(a.armed[i].Load()); {
		case ran[i].Load():
			run++
		case at > 0 && at < closed-closeSlack:
			lost++
		}
	}
	note := func(m metric, v int64) { b.add(round, c.name, m, float64(v)) }
	note(closeAccepted, a.accepted.Load())
	note(closeRan, run)
	note(closeLost, lost)
	note(closeRefused, a.refused.Load())
	note(closePanicked, a.panicked.Load())
	note(closeHung, int64(n)-a.returned.Load())
	return nil
}

// adders are goroutines that arm one timer each.
type adders struct {
	rival   rival
	start   time.Time
	gate    chan struct{} // closed to let them go
	quarter chan struct{} // closed when a quarter of them have armed

	armed []atomic.Int64 // when, in ns after start; 0 if it was not

	accepted, refused, panicked, returned atomic.Int64
}

func newAdders(r rival, n int) *adders {
	return &adders{
		rival:   r,
		start:   time.Now(),
		gate:    make(chan struct{}),
		quarter: make(chan struct{}),
		armed:   make([]atomic.Int64, n),
	}
}

func (a *adders) add(i int) {
	defer a.returned.Add(1)
	defer func() {
		if recover() != nil {
			a.panicked.Add(1)
		}
	}()
	<-a.gate
	if err := a.rival.arm(i, 0); err != nil {
		a.refused.Add(1)
		return
	}
	a.armed[i].Store(int64(time.Since(a.start)))
	if a.accepted.Add(1) == int64(len(a.armed)/4) {
		close(a.quarter)
	}
}
