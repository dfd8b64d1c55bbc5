package rivals

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// caffeineShift makes the finest rings span 8.4 ms.
const caffeineShift = 23

// caffeineContender is a stand-in, written for this comparison, of the timer wheel inside the Java
// cache Caffeine (github.com/ben-manes/caffeine, TimerWheel.java and its use in BoundedLocalCache): five
// wheels of 64, 64, 32, 4 and 1 rings of timers, where a ring spans a power of two of nanoseconds. A
// timer is in the finest wheel that reaches its deadline. When time passes a ring, its timers expire
// or move to a finer wheel. One lock, that of the cache's maintenance, guards all of it. A renewal
// writes the deadline without the lock, and moves the timer only if the lock is free; else the timer
// moves when its ring is passed.
//
// In Caffeine the finest ring spans 1.07 s; here 8.4 ms, close to the tick of the other wheels, and each
// coarser one by the same factors more. The hash table of the cache is left out, so a timer is known by
// its address. As with the heap of pointers, what has expired is passed on in batches, and the wheel
// waits when the workers are busy; Caffeine gives its pool a task each, without a bound. The clock is
// read once for 256 operations, which a Ticker of Caffeine can do.
func caffeineContender() contender {
	return contender{
		name:    "Caffeine's TimerWheel (stand-in)",
		version: "ours",
		runs:    "workers",
		renews:  "reschedule",
		lacks:   "deadlines finer than 8.4 ms; on-time expiry while callbacks are slow",
		open: func(s setup) *rival {
			w, origin, due := newCaffeineWheel(), time.Now(), startWorkers(s.workers)
			go ticks(origin, 1<<caffeineShift, func(now time.Duration) { w.step(now, due.pass) })
			clock := sharedClock{read: func() time.Duration { return time.Since(origin) }}
			r := hold(s, library[*element[caffeineTimer]]{
				arm:    func(_ int, d time.Duration, f func()) *element[caffeineTimer] { return w.arm(clock.now()+d, f) },
				touch:  func(t *element[caffeineTimer], d time.Duration) { w.touch(t, clock.now()+d) },
				cancel: w.cancel,
			})
			r.batch = clock.batch
			return r
		},
	}
}

type caffeineTimer struct {
	at atomic.Int64 // nanoseconds
	f  func()
}

type caffeineWheel struct {
	mu     sync.Mutex // guards the fields below, and all rings
	now    time.Duration
	levels []caffeineLevel        // the finest first
	passed element[caffeineTimer] // the ring of timers whose rings time has passed
}

// caffeineLevel has a power of two of rings, each for 1<<shift nanoseconds.
type caffeineLevel struct {
	shift int
	rings []element[caffeineTimer]
}

func newCaffeineWheel() *caffeineWheel {
	w := &caffeineWheel{}
	w.passed.clear()
	shift := caffeineShift
	for _, n := range []int{64, 64, 32, 4, 1} {
		w.levels = append(w.levels, caffeineLevel{shift, newRings[caffeineTimer](n)})
		shift += bits.TrailingZeros(uint(n))
	}
	return w
}

func (w *caffeineWheel) arm(at time.Duration, f func()) *element[caffeineTimer] {
	e := &element[caffeineTimer]{value: caffeineTimer{f: f}}
	e.value.at.Store(int64(at))
	w.mu.Lock()
	w.placeLocked(e)
	w.mu.Unlock()
	return e
}

func (w *caffeineWheel) touch(e *element[caffeineTimer], at time.Duration) {
	e.value.at.Store(int64(at))
	if w.mu.TryLock() {
		if e.remove() {
			w.placeLocked(e)
		}
		w.mu.Unlock()
	}
}

func (w *caffeineWheel) cancel(e *element[caffeineTimer]) {
	w.mu.Lock()
	e.remove()
	w.mu.Unlock()
}

// placeLocked adds a timer to the finest ring that will be passed after its deadline.
func (w *caffeineWheel) placeLocked(e *element[caffeineTimer]) {
	at := max(time.Duration(e.value.at.Load()), w.now)
	i, last := 0, len(w.levels)-1
	for i < last && at-w.now >= 1<<w.levels[i+1].shift {
		i++
	}
	w.levels[i].ring(at).push(e)
}

// ring returns the ring of an instant, which it shares with those that are whole turns apart.
func (l *caffeineLevel) ring(at time.Duration) *element[caffeineTimer] {
	return &l.rings[int(at>>l.shift)&(len(l.rings)-1)]
}

// step passes on the callbacks of timers that are due, without the lock.
func (w *caffeineWheel) step(now time.Duration, pass func([]func())) {
	w.advance(now)
	for more := true; more; {
		var funcs []func()
		if funcs, more = w.expire(); len(funcs) > 0 {
			pass(funcs)
		}
	}
}

// advance takes the timers out of all rings that time has passed, or has reached.
func (w *caffeineWheel) advance(now time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.now
	w.now = now
	for i := range w.levels {
		l := &w.levels[i]
		from, to := before>>l.shift, now>>l.shift
		if from == to {
			return // nor has it passed a coarser one
		}
		for k := from; k <= min(to, from+time.Duration(len(l.rings))-1); k++ {
			w.passed.take(l.ring(k << l.shift))
		}
	}
}

// expire places some of the timers that advance took out, or returns their callbacks if they are due,
// and reports whether there may be more.
func (w *caffeineWheel) expire() (funcs []func(), more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 16 * batchSize {
		e := w.passed.first()
		if e == nil {
			return funcs, false
		}
		e.remove()
		if e.value.at.Load() > int64(w.now) {
			w.placeLocked(e)
		} else if funcs = append(funcs, e.value.f); len(funcs) == batchSize {
			break
		}
	}
	return funcs, true
}
