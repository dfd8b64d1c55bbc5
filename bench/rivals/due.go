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

// countdown counts the callbacks of n timers.
type countdown struct {
	n     int
	fired atomic.Int64
	done  chan time.Time // room for one: when the last callback ran; never closed
}

func newCountdown(n int) *countdown { return &countdown{n: n, done: make(chan time.Time, 1)} }

func (c *countdown) fire() {
	if c.fired.Add(1) == int64(c.n) {
		c.done <- time.Now()
	}
}

// wait returns when the last callback ran, or how many have not run within a minute.
func (c *countdown) wait() (last time.Time, missing int) {
	select {
	case last = <-c.done:
		return last, 0
	case <-time.After(time.Minute):
		return last, c.n - int(c.fired.Load())
	}
}

// start returns an instant before which n timers can be armed.
func start(n int) time.Time {
	return time.Now().Add(150*time.Millisecond + time.Duration(n)*4*time.Microsecond)
}

// sleepUntil waits for an instant. The error says that it has passed already.
func sleepUntil(at time.Time) error {
	wait := time.Until(at)
	if wait < 0 {
		return fmt.Errorf("arming took %v too long", -wait)
	}
	time.Sleep(wait)
	return nil
}

// instant measures n timers that are due at one instant. Callbacks read the clock only until then.
func (j *job) instant() (values, error) {
	at := start(j.n)
	var reached atomic.Bool
	var early, earliest atomic.Int64
	all := newCountdown(j.n)
	r := j.open(newSetup(j.n, false, func(int) {
		if !reached.Load() {
			by := time.Until(at)
			if by <= 0 {
				reached.Store(true)
			} else if early.Add(1) == 1 {
				earliest.Store(int64(by))
			}
		}
		all.fire()
	}))
	for i := range j.n {
		r.armAt(i, at)
	}
	if err := sleepUntil(at); err != nil {
		return nil, err
	}
	last, missing := all.wait()
	v := values{
		"instant_missing":  float64(missing),
		"instant_early":    float64(early.Load()),
		"instant_early_by": figures.Millis(time.Duration(earliest.Load())),
	}
	if missing == 0 {
		v["instant_last"] = figures.Millis(last.Sub(at))
	}
	return v, nil
}

// watched are timers that note how late they fire.
type watched struct {
	*countdown

	due  []time.Time
	late []float64 // in milliseconds; each written once, by the callback of that timer
}

// watch returns n timers that are due evenly over some time, in random order.
func (j *job) watch(n int, begin time.Time, over time.Duration) *watched {
	w := &watched{countdown: newCountdown(n), due: make([]time.Time, n), late: make([]float64, n)}
	for k, i := range j.random.Perm(n) {
		w.due[i] = begin.Add(over / time.Duration(n) * time.Duration(k))
	}
	return w
}

func (w *watched) fire(i int) {
	w.late[i] = figures.Millis(time.Since(w.due[i]))
	w.countdown.fire()
}

func (w *watched) arm(r *rival) {
	for i, at := range w.due {
		r.armAt(i, at)
	}
}

// lateness returns how late the timers fired, in ascending order, once all have fired.
func (w *watched) lateness() ([]float64, error) {
	if _, missing := w.wait(); missing > 0 {
		return nil, fmt.Errorf("%d of %d timers have not fired", missing, w.n)
	}
	slices.Sort(w.late)
	return w.late, nil
}

// quantile returns the value that a share q of the sorted values is not above.
func quantile(sorted []float64, q float64) float64 {
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

// overWindow measures timers that are due evenly over some seconds.
func (j *job) overWindow() (values, error) {
	begin := start(j.spread)
	w := j.watch(j.spread, begin, j.window)
	w.arm(j.open(newSetup(j.spread, true, w.fire)))
	if err := sleepUntil(begin); err != nil {
		return nil, err
	}
	cpu := must(cores.CPUTime(os.Getpid()))
	time.Sleep(time.Until(begin.Add(j.window)))
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
	n, begin := j.others, start(j.others)
	w := j.watch(n, begin.Add(j.block/8), j.block/2)
	s := newSetup(n+2, true, func(i int) {
		if i == n {
			time.Sleep(j.block)
			return
		}
		w.fire(i)
	})
	s.workers = 1
	r := j.open(s)
	w.arm(r)
	r.armAt(n, begin)
	if err := sleepUntil(begin); err != nil {
		return nil, err
	}
	v := r.probe(n+1, begin.Add(j.block))
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
