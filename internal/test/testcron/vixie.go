// Package testcron is a naive model of crontab expressions, for tests and benchmarks of what computes their instants: random
// expressions whose meaning is a function of the clock on the wall, and Vixie cron's main loop, played one minute or second at a time.
package testcron

import (
	"sort"
	"time"
)

// correction is how far local time jumps at least ahead for cron to take it for a correction; a jump back must be greater.
const correction = 3 * time.Hour

// Vixie plays the main loop of Vixie cron (cron.c of cron 4.1 and of cronie: the four kinds of wakeups), a step at a time, over the
// local time of a while. It may be used concurrently.
type Vixie struct {
	Instants []time.Time // all steps of the while

	step  int64   // in seconds
	local []int64 // the civil steps of the instants, as if 1970-01-01 00:00:00 were 0 in each zone
}

// NewVixie returns one for the instants from one to before another. A step is a minute, as cron's is, or a second, which is cron's loop
// with that one.
func NewVixie(loc *time.Location, from, to time.Time, step time.Duration) *Vixie {
	n := int(to.Sub(from)/step) + 1
	v := &Vixie{step: int64(step / time.Second), Instants: make([]time.Time, 0, n), local: make([]int64, 0, n)}
	for t := from.Truncate(step); t.Before(to); t = t.Add(step) {
		_, offset := t.In(loc).Zone()
		v.Instants = append(v.Instants, t.In(loc))
		v.local = append(v.local, (t.Unix()+int64(offset))/v.step)
	}
	return v
}

// Runs returns when an expression runs.
func (v *Vixie) Runs(x Expression) []time.Time {
	var runs []time.Time
	great := int64(correction/time.Second) / v.step
	virtual := v.local[0] - 1
	for i, t := range v.Instants {
		local := v.local[i]
		jump := local - virtual - 1
		fire := x.Wild && x.Matches(local*v.step)
		switch {
		case jump >= great || jump < -great:
			fire, virtual = x.Matches(local*v.step), local
		case jump >= 0:
			for virtual < local {
				virtual++
				fire = fire || !x.Wild && x.Matches(virtual*v.step)
			}
		}
		if fire {
			runs = append(runs, t)
		}
	}
	return runs
}

// Next returns the first of sorted instants that is after one, and the zero time if none is.
func Next(runs []time.Time, after time.Time) time.Time {
	i := sort.Search(len(runs), func(i int) bool { return runs[i].After(after) })
	if i == len(runs) {
		return time.Time{}
	}
	return runs[i]
}
