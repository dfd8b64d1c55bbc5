package rivals

import (
	"fmt"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
)

// watched are n timers that are due evenly over some time, in random order.
type watched struct {
	begin time.Time
	due   []time.Duration // after begin
	late  []float64       // in milliseconds; each written once, by the callback of that timer
	fired atomic.Int64
	done  chan time.Time // room for one: when the last callback ran; never closed
}

// watch returns n timers of which the first is due a while after begin. They can be armed before begin.
func (j *job) watch(n int, first, over time.Duration) *watched {
	lead := 500*time.Millisecond + time.Duration(n)*4*time.Microsecond
	w := &watched{begin: time.Now().Add(lead), due: make([]time.Duration, n), late: make([]float64, n), done: make(chan time.Time, 1)}
	for k, i := range j.random.Perm(n) {
		w.due[i] = first + over/time.Duration(n)*time.Duration(k)
	}
	return w
}

// arm arms the timers and waits for begin. The error says that it took too long.
func (w *watched) arm(r *rival) error {
	for i, due := range w.due {
		r.armAt(i, w.begin.Add(due))
	}
	wait := time.Until(w.begin)
	if wait < 0 {
		return fmt.Errorf("arming took %v too long", -wait)
	}
	time.Sleep(wait)
	return nil
}

// fire notes how late a timer is.
func (w *watched) fire(i int) {
	w.late[i] = figures.Millis(time.Since(w.begin) - w.due[i])
	w.count()
}

// count counts a callback.
func (w *watched) count() {
	if w.fired.Add(1) == int64(len(w.due)) {
		w.done <- time.Now()
	}
}

// wait returns when the last callback ran, or how many have not run within a minute.
func (w *watched) wait() (last time.Time, missing int) {
	select {
	case last = <-w.done:
		return last, 0
	case <-time.After(time.Minute):
		return last, len(w.due) - int(w.fired.Load())
	}
}

// lateness returns how late the timers fired, in ascending order, once all have fired.
func (w *watched) lateness() ([]float64, error) {
	if _, missing := w.wait(); missing > 0 {
		return nil, fmt.Errorf("%d of %d timers have not fired", missing, len(w.due))
	}
	slices.Sort(w.late)
	return w.late, nil
}

// quantile returns the value that a share q of the sorted values is not above.
func quantile(sorted []float64, q float64) float64 {
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

// instant measures n timers that are due at one instant. Callbacks read the clock only until then.
func (j *job) instant() (values, error) {
	w := j.watch(j.n, 0, 0)
	var reached atomic.Bool
	var early, earliest atomic.Int64
	r := j.open(newSetup(j.n, false, func(int) {
		if !reached.Load() {
			by := time.Until(w.begin)
			if by <= 0 {
				reached.Store(true)
			} else if early.Add(1) == 1 {
				earliest.Store(int64(by))
			}
		}
		w.count()
	}))
	if err := w.arm(r); err != nil {
		return nil, err
	}
	last, missing := w.wait()
	v := values{
		"instant_missing":  float64(missing),
		"instant_early":    float64(early.Load()),
		"instant_early_by": figures.Millis(time.Duration(earliest.Load())),
	}
	if missing == 0 {
		v["instant_last"] = figures.Millis(last.Sub(w.begin))
	}
	return v, nil
}

// overWindow measures timers that are due evenly over some seconds.
func (j *job) overWindow() (values, error) {
	w := j.watch(j.spread, 0, j.window)
	if err := w.arm(j.open(newSetup(j.spread, true, w.fire))); err != nil {
		return nil, err
	}
	cpu := must(cores.CPUTime(os.Getpid()))
	time.Sleep(time.Until(w.begin.Add(j.window)))
	cpu = must(cores.CPUTime(os.Getpid())) - cpu
	late, err := w.lateness()
	if err != nil {
		return nil, err
	}
	early, _ := slices.BinarySearch(late, 0)
	return values{
		"window_p50": quantile(late, 0.5), "window_p99": quantile(late, 0.99), "window_max": quantile(late, 1),
		"window_early": float64(early), "window_early_by": max(-late[0], 0), "window_cpu": cpu.Seconds(),
	}, nil
}

// slowCallback measures what else comes late while one callback blocks, with one worker: other timers
// that fall due meanwhile, and operations that have nothing to do with it.
func (j *job) slowCallback() (values, error) {
	n := j.others
	w := j.watch(n, j.block/8, j.block/2)
	s := newSetup(n+2, true, func(i int) {
		if i == n {
			time.Sleep(j.block)
			return
		}
		w.fire(i)
	})
	s.workers = 1
	r := j.open(s)
	r.armAt(n, w.begin)
	if err := w.arm(r); err != nil {
		return nil, err
	}
	v := r.probe(n+1, w.begin.Add(j.block))
	if r.lateness != nil {
		v["slow_engine_p99"] = figures.Millis(r.lateness().Quantile(0.99))
	}
	late, err := w.lateness()
	if err != nil {
		return nil, err
	}
	v["slow_run_p99"] = quantile(late, 0.99)
	return v, nil
}

// probe arms, renews and cancels the timer at place i each millisecond, and returns the longest times.
func (r *rival) probe(i int, until time.Time) values {
	longest := values{}
	timed := func(m metric, do func()) {
		start := time.Now()
		do()
		longest[m] = max(longest[m], figures.Millis(time.Since(start)))
	}
	for time.Now().Before(until) {
		time.Sleep(time.Millisecond)
		r.batch()
		timed("slow_arm_max", func() { r.arm(i, time.Minute) })
		timed("slow_touch_max", func() { r.touch(i, time.Minute) })
		timed("slow_cancel_max", func() { r.cancel(i) })
	}
	return longest
}
