package rivals

import (
	"time"

	"github.com/antlabs/timer"
)

// antlabsContender is a five-level wheel like the one that Linux had, with a tick of 10 ms. It may be early by up to two ticks.
// It cannot bound its callbacks. Its Reset is not used: it takes the lock of the timer's slot, and while holding it the lock of
// the slot that the timer moves to, so it hangs for ever when the two are one, which with slots of 2.5 s happens at once.
func antlabsContender() contender {
	return contender{
		name:   "antlabs/timer",
		module: "github.com/antlabs/timer",
		runs:   "a goroutine each",
		renews: "Stop + AfterFunc",
		lacks:  "a Reset that does not hang; a bound on running callbacks",
		tick:   30 * time.Millisecond,
		open: func(s setup) (rival, error) {
			w := &antlabs{setup: s, wheel: timer.NewTimer(), timers: make([]timer.TimeNoder, s.n), done: make(chan struct{})}
			go func() {
				defer close(w.done)
				w.wheel.Run()
			}()
			time.Sleep(20 * time.Millisecond) // until Run has read the clock; it has no other sign
			return w, nil
		},
	}
}

type antlabs struct {
	setup

	wheel  timer.Timer
	timers []timer.TimeNoder
	done   chan struct{} // closed when Run has returned
}

func (w *antlabs) arm(i int, d time.Duration) error {
	w.timers[i] = w.wheel.AfterFunc(d, w.callback(i))
	return nil
}

func (w *antlabs) touch(i int, d time.Duration) {
	w.timers[i].Stop()
	w.timers[i] = w.wheel.AfterFunc(d, w.callback(i))
}

func (w *antlabs) cancel(i int)  { w.timers[i].Stop() }
func (w *antlabs) swap(i, j int) { w.timers[i], w.timers[j] = w.timers[j], w.timers[i] }
func (w *antlabs) idBytes() int  { return 16 }

func (w *antlabs) close() {
	w.wheel.Stop()
	<-w.done
}
