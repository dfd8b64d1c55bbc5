package rivals

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
)

const (
	windowP50     metric = "window_p50_ms"
	windowP99     metric = "window_p99_ms"
	windowMax     metric = "window_max_ms"
	windowEarly   metric = "window_early"
	windowEarlyBy metric = "window_early_by_ms"
	windowCPU     metric = "window_cpu_s"
	windowMissing metric = "window_missing"
)

// tooSlowError is returned when arming took longer than the time before the first deadline.
type tooSlowError struct{ given time.Duration }

func (e tooSlowError) Error() string { return fmt.Sprintf("arming took more than %v", e.given) }

// lead returns the time that arming n timers may take at first.
func (b *bench) lead(c contender, n int) time.Duration {
	nanos := b.median(armNanos, c.name)
	if math.IsNaN(nanos) {
		nanos = 500
	}
	return min(150*time.Millisecond+time.Duration(2*nanos*float64(n)), 10*time.Second)
}

// raise makes v at least x.
func raise(v *atomic.Int64, x int64) {
	for {
		old := v.Load()
		if old >= x || v.CompareAndSwap(old, x) {
			return
		}
	}
}

// overWindow measures timers that are due evenly over some seconds, armed in random order.
func (b *bench) overWindow(_ context.Context, round int, c contender) error {
	lead := b.lead(c, b.spread)
	for {
		err := b.windowWith(lead, round, c)
		if _, slow := errors.AsType[tooSlowError](err); !slow || lead > time.Minute {
			return err
		}
		lead *= 2
	}
}

func (b *bench) windowWith(lead time.Duration, round int, c contender) error {
	freeMemory()
	n := b.spread
	w := &watched{due: make([]time.Time, n), late: make([]time.Duration, n), done: make(chan struct{})}
	s := newSetup(n, w.fire)
	s.each = true
	r, err := c.open(s)
	if err != nil {
		return err
	}
	defer r.close()
	begin := time.Now().Add(lead)
	for k, i := range b.random.Perm(n) {
		w.due[i] = begin.Add(b.window / time.Duration(n) * time.Duration(k))
	}
	for i := range n {
		if err := armAt(r, i, w.due[i]); err != nil {
			return err
		}
	}
	if time.Now().After(begin) {
		return tooSlowError{lead}
	}
	time.Sleep(time.Until(begin))
	cpu := cpuTime()
	time.Sleep(time.Until(begin.Add(b.window)))
	cpu = cpuTime() - cpu

	add := func(m metric, v float64) { b.add(round, c.name, m, v) }
	add(windowCPU, cpu.Seconds())
	missing := w.wait(b.patience)
	add(windowMissing, float64(missing))
	if missing > 0 {
		return nil // timers that have not fired still write to late
	}
	slices.Sort(w.late)
	early, _ := slices.BinarySearch(w.late, 0)
	add(windowP50, figures.Millis(quantile(w.late, 0.5)))
	add(windowP99, figures.Millis(quantile(w.late, 0.99)))
	add(windowMax, figures.Millis(w.late[n-1]))
	add(windowEarly, float64(early))
	add(windowEarlyBy, figures.Millis(max(-w.late[0], 0)))
	return nil
}

// watched notes how late each timer fired.
type watched struct {
	due   []time.Time
	late  []time.Duration // each written once, by the callback of that timer
	fired atomic.Int64
	done  chan struct{} // closed when all have fired
}

func (w *watched) fire(i int) {
	w.late[i] = time.Since(w.due[i])
	if w.fired.Add(1) == int64(len(w.due)) {
		close(w.done)
	}
}

// wait waits until all have fired, and returns how many have not.
func (w *watched) wait(patience time.Duration) (missing int) {
	await(w.done, w.fired.Load, patience)
	return len(w.due) - int(w.fired.Load())
}
