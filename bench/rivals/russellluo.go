package rivals

import (
	"time"

	"github.com/RussellLuo/timingwheel"
)

// russellLuoContender is a hierarchy of timing wheels like Kafka's, driven by a queue of the slots that are in use. Deadlines are
// cut off to milliseconds, so it may be early by one tick. It cannot renew a timer, and cannot bound its callbacks.
func russellLuoContender() contender {
	return contender{
		name:   "RussellLuo/timingwheel",
		module: "github.com/RussellLuo/timingwheel",
		runs:   "a goroutine each",
		renews: "Stop + AfterFunc",
		lacks:  "a renewal; a bound on running callbacks",
		tick:   2 * time.Millisecond,
		open: func(s setup) (rival, error) {
			w := &russellLuo{
				setup: s,
				// Two levels, for timeouts of up to four minutes; more and smaller ones are slower.
				wheel:  timingwheel.NewTimingWheel(time.Millisecond, 512),
				timers: make([]*timingwheel.Timer, s.n),
			}
			w.wheel.Start()
			return w, nil
		},
	}
}

type russellLuo struct {
	setup

	wheel  *timingwheel.TimingWheel
	timers []*timingwheel.Timer
}

func (w *russellLuo) arm(i int, d time.Duration) error {
	w.timers[i] = w.wheel.AfterFunc(d, w.callback(i))
	return nil
}

func (w *russellLuo) touch(i int, d time.Duration) {
	w.timers[i].Stop()
	w.timers[i] = w.wheel.AfterFunc(d, w.callback(i))
}

func (w *russellLuo) cancel(i int)  { w.timers[i].Stop() }
func (w *russellLuo) swap(i, j int) { w.timers[i], w.timers[j] = w.timers[j], w.timers[i] }
func (w *russellLuo) idBytes() int  { return 8 }
func (w *russellLuo) close()        { w.wheel.Stop() }
