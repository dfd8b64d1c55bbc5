//go:build linux

package fleet

import (
	"math/rand/v2"
	"slices"
	"time"
)

// retry is what a device needs to dial again by itself.
type retry struct {
	waiting bool
	at      time.Time // when it will
	step    int       // of dev.Steps, for which it does; noStep for Connect
	tries   int       // that failed, in a row
}

// waits are the devices that wait before they dial again. They are looked
// through only when the first is due.
type waits struct {
	shortest, longest time.Duration // longest is 0 if no device dials again
	chance            *rand.Rand
	list              []*dev
	at                time.Time // of the first that is due
}

func (w *waits) enabled() bool { return w.longest > 0 }

// add makes a device wait, the longer the more of its tries have failed.
func (w *waits) add(d *dev, now time.Time) {
	wait := w.longest
	if d.retry.tries < 16 {
		wait = min(w.shortest<<d.retry.tries, w.longest)
	}
	wait -= time.Duration(w.chance.Int64N(int64(wait)/2 + 1))
	d.retry.tries++
	d.retry.waiting, d.retry.at = true, now.Add(wait)
	if len(w.list) == 0 || d.retry.at.Before(w.at) {
		w.at = d.retry.at
	}
	w.list = append(w.list, d)
}

// next returns when the first is due, or otherwise if nobody waits.
func (w *waits) next(otherwise time.Time) time.Time {
	if len(w.list) == 0 {
		return otherwise
	}
	return w.at
}

// due removes and returns those whose time has come.
func (w *waits) due(now time.Time) []*dev {
	if len(w.list) == 0 || w.at.After(now) {
		return nil
	}
	var due []*dev
	left := w.list[:0]
	for _, d := range w.list {
		if d.retry.at.After(now) {
			if len(left) == 0 || d.retry.at.Before(w.at) {
				w.at = d.retry.at
			}
			left = append(left, d)
			continue
		}
		d.retry.waiting = false
		due = append(due, d)
	}
	clear(w.list[len(left):])
	w.list = left
	return due
}

// remove takes back an add.
func (w *waits) remove(d *dev) {
	d.retry.waiting = false
	w.list = slices.DeleteFunc(w.list, func(o *dev) bool { return o == d })
}

// comeBack makes a device that was dropped dial again, if devices do.
func (f *Fleet) comeBack(d *dev, now time.Time) {
	if f.waits.enabled() {
		d.Steps = append(d.Steps, Step{Action: Reconnect, Planned: now, At: now, LastHeartbeat: d.LastHeartbeat})
		f.again(d, len(d.Steps)-1, now)
	}
}

// again makes a device that is to be connected, and is not, dial again, if
// devices do, for the step with this index.
func (f *Fleet) again(d *dev, step int, now time.Time) {
	if f.waits.enabled() && d.on && d.cur == nil && !d.retry.waiting {
		d.retry.step = step
		f.waits.add(d, now)
	}
}
