package rivals

import "time"

// stdlibContender is Go's own timer: a 4-ary heap for each P, kept by the runtime. Reset is cheap when the deadline moves back,
// since the runtime then leaves the heap alone until the timer comes up. It cannot bound its callbacks, each of which gets a
// goroutine, and it cannot end all timers at once.
func stdlibContender() contender {
	return contender{
		name:   "time.AfterFunc",
		runs:   "a goroutine each",
		renews: "Reset",
		lacks:  "a bound on running callbacks; a Close",
		open: func(s setup) (rival, error) {
			return &stdlib{setup: s, timers: make([]*time.Timer, s.n)}, nil
		},
	}
}

type stdlib struct {
	setup

	timers []*time.Timer
}

func (l *stdlib) arm(i int, d time.Duration) error {
	l.timers[i] = time.AfterFunc(d, l.callback(i))
	return nil
}

func (l *stdlib) touch(i int, d time.Duration) { l.timers[i].Reset(d) }
func (l *stdlib) cancel(i int)                 { l.timers[i].Stop() }
func (l *stdlib) swap(i, j int)                { l.timers[i], l.timers[j] = l.timers[j], l.timers[i] }
func (l *stdlib) idBytes() int                 { return 8 }

func (l *stdlib) close() {
	for _, t := range l.timers {
		if t != nil {
			t.Stop()
		}
	}
}
