package server

import "time"

// mayStandStill is how long a count of progress may stay the same. All of them grow several times a second.
const mayStandStill = 10 * time.Second

// watchdog decides when the service manager is told that the process hears. It is told neither that a broker
// or the database is away nor that the process is slow: a restart helps with none of them, and costs each
// device what it said meanwhile.
//
// A process that was stopped, or whose machine slept, hears again within milliseconds once it runs on. The
// manager is told at the next look, half a second later at most, unless it has lost patience before.
type watchdog struct {
	role  *activity
	parts []part
	fed   time.Time
}

// part is what one count of progress was, and when it was seen to change.
type part struct {
	count uint64
	moved time.Time
}

// due reports whether the manager is to be told now: every count of the role has grown lately, and it was not
// told within a time.
func (w *watchdog) due(now time.Time, r *activity, every time.Duration) bool {
	var counts []uint64
	if r.progress != nil {
		counts = r.progress()
	}
	if r != w.role || len(counts) != len(w.parts) {
		w.role, w.parts = r, make([]part, len(counts))
		for i := range w.parts {
			w.parts[i] = part{counts[i], now}
		}
	}
	hears := true
	for i, count := range counts {
		if p := &w.parts[i]; count != p.count {
			*p = part{count, now}
		}
		hears = hears && now.Sub(w.parts[i].moved) < mayStandStill
	}
	if !hears || now.Sub(w.fed) < every {
		return false
	}
	w.fed = now
	return true
}
