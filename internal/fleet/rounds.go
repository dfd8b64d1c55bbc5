package fleet

import "time"

// rounds plans heartbeats: each device has one in every interval, and those of
// n devices are spread evenly over it. The plan is fixed by start, so a late
// heartbeat delays none of the following ones.
type rounds struct {
	start    time.Time
	interval time.Duration
	n        int
	beat     int // of the next heartbeat, counted from 0 over all devices
}

// device is whose heartbeat is next.
func (r *rounds) device() int { return r.beat % r.n }

// planned is when the next heartbeat is due.
func (r *rounds) planned() time.Time {
	round, i := int64(r.beat/r.n), int64(r.beat%r.n)
	every := int64(r.interval)
	return r.start.Add(time.Duration(round*every + i*every/int64(r.n)))
}

// skip leaves out the whole rounds by which the plan is behind now, and returns
// their number: a device that is late by more than an interval sends one
// heartbeat, not all that it missed.
func (r *rounds) skip(now time.Time) int {
	behind := int(now.Sub(r.planned()) / r.interval)
	if behind <= 0 {
		return 0
	}
	r.beat += behind * r.n
	return behind
}
